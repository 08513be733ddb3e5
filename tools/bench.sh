#!/usr/bin/env bash
# Runs benchmarks and puts what they print into docs/benchmarks.md, with the day, the commit, the machine and its load.
#
#   tools/bench.sh [NAME…]         `make bench-NAME` for each: overhead, peers, viewer, store, agent unless told
#   tools/bench.sh --page NAME FILE    only puts a text into the section of that name
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
page=${BENCH_PAGE:-$root/docs/benchmarks.md}

# Replaces what is between `<!-- NAME -->` and `<!-- end of NAME -->`.
put() { # NAME FILE
    grep -qx "<!-- $1 -->" "$page" || { printf 'tools/bench.sh: %s has no section %s\n' "$page" "$1" >&2; exit 2; }
    local new
    new=$(mktemp)
    awk -v name="$1" -v file="$2" -v head="$(heading)" '
        $0 == "<!-- end of " name " -->" { inside = 0 }
        !inside { print }
        $0 == "<!-- " name " -->" {
            inside = 1
            print head "\n\n```"
            while ((getline line < file) > 0) print line
            print "```"
        }' "$page" >"$new"
    cat "$new" >"$page"
    rm "$new"
}

heading() {
    printf '%s, commit %s, %s CPUs (%s), Linux %s, load %s before it started:' "$(date -u +%F)" \
        "$(git -C "$root" rev-parse --short=12 HEAD)" "$(nproc)" \
        "$(sed -n 's/^model name\t*: //p' /proc/cpuinfo | head -1)" "$(uname -r | cut -d - -f 1)" "${load:-unknown}"
}

if [[ ${1:-} == --page ]]; then
    put "${2:?which section?}" "${3:?which file?}"
    exit
fi
mkdir -p "$root/target/bench"
(($#)) || set -- overhead peers viewer store agent
for name in "$@"; do
    load=$(cut -d ' ' -f 1 /proc/loadavg)
    make --silent -C "$root" "bench-$name" | tee "$root/target/bench/$name.txt"
    put "$name" "$root/target/bench/$name.txt"
done
