#!/usr/bin/env bash
# The worked example of docs/guide/latency.md: a service with bad latency and an idle CPU. Prints what its callers see and
# what `nodespy record -e wall` says, before and after the fix; writes target/guide/latency.html and its picture.
#
#   tools/guide-latency.sh     as root (a resolv.conf of its own), after `cargo build --release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
folder=$root/target/guide
programs=$root/workloads/latency
node=$("$root/tools/node.sh" 24)
mkdir -p "$folder"
printf 'nameserver 127.7.7.7\noptions timeout:5 attempts:1\n' >"$folder/resolv.conf"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT

# Starts a program in a mount namespace with our resolv.conf and waits for `ready PORT`.
start() { # NAME PROGRAM
    : >"$folder/$1.txt"
    unshare --mount sh -c 'mount --bind "$0" /etc/resolv.conf && exec "$@"' "$folder/resolv.conf" \
        "$node" "$2" >"$folder/$1.txt" 2>&1 &
    pids+=($!)
    for _ in $(seq 100); do
        port=$(sed -n 's/^ready //p' "$folder/$1.txt")
        [[ -z $port ]] || return 0
        sleep 0.1
    done
    cat "$folder/$1.txt" >&2
    exit 1
}

look() { # NAME
    start "$1" "$programs/app.js"
    local app=${pids[-1]}
    "$node" "$programs/load.js" "http://127.0.0.1:$port/" 12 &
    local load=$!
    sleep 2
    "$nodespy" record -e wall -d 8 -p "$app" -o "$folder/$1.html"
    wait "$load"
}

start dns "$programs/slow-dns.js"
export UPSTREAM_PORT=$port
printf '== before\n'
look latency
printf '\n== after: names are looked up once\n'
CACHED=1 look latency-fixed

"$root/tools/picture.sh" "$folder/latency.html" "$folder/latency.png" 1100 620
