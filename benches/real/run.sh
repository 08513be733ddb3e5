#!/usr/bin/env bash
# Records real programs and checks what the summary of each must and must not say.
#
#   benches/real/run.sh [NAME ...]     all of them, or those
#
# Programs are installed by npm into target/real, once. What was said lies in target/real/out/NAME.txt, the
# recording beside it. Exits with 1 when a summary lacks a line or has one that is wrong.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
folder=$root/target/real
wanted=("$@")
failed=0
current=

node=$("$root/tools/node.sh" 24) || exit
PATH=$(dirname "$node"):$PATH
export PATH

say() { printf '%s\n' "$*"; }

install_programs() {
    mkdir -p "$folder/out"
    cp -r "$here/package.json" "$here/programs" "$folder/"
    if [[ ! $folder/node_modules/.package-lock.json -nt $here/package.json ]]; then
        npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
    fi
    # What linters and formatters read: they pass over node_modules.
    mkdir -p "$folder/inputs"
    cp "$folder"/node_modules/react-dom/cjs/react-dom-client.development.js \
        "$folder"/node_modules/lodash/lodash.js "$folder/inputs/"
}

is_wanted() {
    ((${#wanted[@]} == 0)) && return
    local name
    for name in "${wanted[@]}"; do [[ $name == "$1" ]] && return; done
    return 1
}

# Records a command from its start to its end.
program() { # NAME COMMAND...
    current=$1
    is_wanted "$current" || { current=; return; }
    shift
    say "$current: $*"
    (cd "$folder" && "$nodespy" record -F 499 -o "out/$current.nspy" -- "$@") >"$folder/out/$current.txt" 2>&1
}

# Records a server under load.
server() { # NAME PATH COMMAND...
    current=$1
    is_wanted "$current" || { current=; return; }
    local path=$2 port=4733
    shift 2
    say "$current: $*"
    (cd "$folder" && PORT=$port exec "$@") >"$folder/out/$current.server" 2>&1 &
    local pid=$!
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    "$node" "$folder/node_modules/.bin/autocannon" -c 10 -d 9 "http://127.0.0.1:$port$path" >/dev/null 2>&1 &
    local load=$!
    sleep 2
    (cd "$folder" && "$nodespy" record -F 499 -d 5 -p "$pid" -o "out/$current.nspy") >"$folder/out/$current.txt" 2>&1
    kill "$load" "$pid"
    wait "$load" "$pid" 2>/dev/null
}

# A line of the summary that must be there.
says() { # REGEX
    [[ $current ]] || return
    grep -Eq -- "$1" "$folder/out/$current.txt" && return
    say "  MISSING: $1"
    failed=$((failed + 1))
}

# A line that must be among the first ten of the summary, which follows what the program itself printed.
first_says() { # REGEX
    [[ $current ]] || return
    grep -E -A 9 '^[0-9.]+ (s|min|h), .* samples at ' "$folder/out/$current.txt" | grep -Eq -- "$1" && return
    say "  NOT AMONG THE FIRST TEN LINES: $1"
    failed=$((failed + 1))
}

# A line that would be wrong.
never_says() { # REGEX
    [[ $current ]] || return
    local line
    line=$(grep -E -m 1 -- "$1" "$folder/out/$current.txt") || return 0
    say "  WRONG: $line"
    failed=$((failed + 1))
}

install_programs
# shellcheck source=benches/real/cases.sh
source "$here/cases.sh"
say "$failed wrong or missing"
((failed == 0))
