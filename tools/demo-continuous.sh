#!/usr/bin/env bash
# Always-on profiling in five minutes: an agent samples ten processes of a service and sends what it sees to a server; five of
# them run a new version in which one function does half as much again. Ends with what the server says about that, and leaves
# it running until Ctrl-C so that the page can be looked at. Ends what it started, by pid.
#
#   sudo tools/demo-continuous.sh [SECONDS]     after `cargo build --release`, as `make demo-continuous` does; NODESPY is another build
#   PICTURE=FILE tools/demo-continuous.sh       with a picture of the page at the end
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=${1:-200}
nodespy=${NODESPY:-${CARGO_TARGET_DIR:-$root/target}/release/nodespy}
demo="$root/target/demo-continuous"
rm -rf "$demo"
mkdir -p "$demo"

say() { printf '\n%s\n' "$*" >&2; }

started=()
end_what_was_started() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
}
trap end_what_was_started EXIT

deploy() { # VERSION PARSE
    local folder="$demo/$1"
    mkdir -p "$folder"
    cp "$root/workloads/continuous/shop.js" "$folder/"
    printf '{"name": "demo-shop", "version": "%s"}\n' "$1" >"$folder/package.json"
    for _ in 1 2 3 4 5; do
        PARSE=$2 node "$folder/shop.js" >"$demo/shop.log" 2>&1 &
        started+=("$!")
    done
}

say "The server: it takes what agents send, and shows it."
"$nodespy" serve --store "$demo/store" --listen 127.0.0.1:0 --ingest >"$demo/address" 2>"$demo/serve.log" &
started+=("$!")
for _ in $(seq 100); do
    grep -q '^http' "$demo/address" && break
    sleep 0.1
done
address=$(head -1 "$demo/address")
address=${address%/}
[[ -n $address ]] || { cat "$demo/serve.log" >&2; exit 1; }

say "Version 1.0.0 of the service demo-shop: five processes. And an agent, at 199 Hz because there is little time."
deploy 1.0.0 20
"$nodespy" agent --to "$address" --store "$demo/agent" -F 199 2>"$demo/agent.log" &
started+=("$!")
sleep 20

say "Version 1.1.0 beside it, in which parseOrders does half as much again: five processes."
deploy 1.1.0 30
# Of instances that ran a minute after their first 20 s; as usual it would be ten minutes after five.
page="$address/?service=demo-shop&warm_up=20&min_length=60"
say "Watching for $seconds s. Look, and press r to ask again: $page"
for ((left = seconds; left > 0; left -= 20)); do
    sleep $((left < 20 ? left : 20))
    kill -0 "${started[0]}" || { cat "$demo/serve.log" >&2; exit 1; }
done

say "nodespy regressions --service demo-shop (of instances that ran a minute after their first 20 s):"
status=0
"$nodespy" regressions --store "$demo/store" --service demo-shop --since 1h --warm-up 20s --min-length 1m || status=$?
case $status in
    10) say "Found: exit code 10." ;;
    *) say "Not found (exit code $status): is the machine busy with something else? The line above says what could have been seen." ;;
esac
grep -E 'level=(warn|error)' "$demo/agent.log" >&2 || true
if [[ -n ${PICTURE:-} ]]; then
    "$root/tools/picture.sh" "$page" "$PICTURE" 1100 760
fi
if [[ -t 0 ]]; then
    say "The page, until Ctrl-C: $page"
    wait "${started[0]}"
fi
exit $((status == 10 ? 0 : 1))
