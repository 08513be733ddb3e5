#!/usr/bin/env bash
# Records a busy express server for five seconds: plain node, no flags, nothing prepared. Writes the
# flame graph to target/demo/ and prints the hottest functions. Ends what it started, by pid.
#
#   tools/demo.sh [SECONDS]     after `cargo build --release`, as `make demo` does
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=${1:-5}
nodespy="${CARGO_TARGET_DIR:-$root/target}/release/nodespy"
demo="$root/target/demo"
mkdir -p "$demo"

say() { printf '\n%s\n' "$*" >&2; }

started=()
end_what_was_started() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
}
trap end_what_was_started EXIT

# Waits until FILE has a line that starts with `ready`, as long as PID lives.
await_ready() { # FILE PID WHAT
    for _ in $(seq 300); do
        grep -q '^ready' "$1" && return
        kill -0 "$2" 2>/dev/null || break
        sleep 0.1
    done
    say "$3 did not start:"
    cat "$1" >&2
    exit 1
}

cd "$demo"
MS=$(((seconds + 60) * 1000)) node "$root/workloads/express/app.js" >"$demo/server.log" 2>&1 &
server=$!
started+=("$server")
await_ready "$demo/server.log" "$server" "the server"
port=$(sed -n 's/^ready //p' "$demo/server.log")

node "$root/workloads/load.js" "$port" $((seconds + 30)) >"$demo/load.log" 2>&1 &
load=$!
started+=("$load")
await_ready "$demo/load.log" "$load" "the load"

say "\$ nodespy"
"$nodespy"
say "\$ nodespy record -p $server -d $seconds -o target/demo/flame.html"
"$nodespy" record -p "$server" -d "$seconds" -o "$demo/flame.html"
say "The flame graph is in target/demo/flame.html: open it in a browser."
