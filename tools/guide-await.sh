#!/usr/bin/env bash
# The worked example of docs/guide/await.md: an async server whose stacks start at microtasks, and the same with async callers.
# Prints both summaries; writes target/guide/await-before.html and await.html, their pictures and one by route.
#
#   tools/guide-await.sh     as root (async callers are read by an eBPF program), after `cargo build --release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
folder=$root/target/guide
programs=$root/workloads/await
node=$("$root/tools/node.sh" 24)
mkdir -p "$folder"

"$node" "$programs/app.js" >"$folder/await.txt" &
app=$!
trap 'kill "$app" 2>/dev/null || true' EXIT
port=
for _ in $(seq 100); do
    port=$(sed -n 's/^ready //p' "$folder/await.txt")
    [[ -z $port ]] || break
    sleep 0.1
done
"$node" "$programs/load.js" "$port" 25 &
load=$!
sleep 2
printf '== before\n'
"$nodespy" record -d 8 -F 199 --no-async -p "$app" -o "$folder/await-before.html"
printf '\n== after\n'
"$nodespy" record -d 8 -F 199 -p "$app" -o "$folder/await.html"
wait "$load"

"$root/tools/picture.sh" "$folder/await-before.html" "$folder/await-before.png" 1100 620
"$root/tools/picture.sh" "$folder/await.html" "$folder/await.png" 1100 620
"$root/tools/picture.sh" "$folder/await.html#by=route" "$folder/await-routes.png" 1100 620
