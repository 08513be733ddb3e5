#!/usr/bin/env bash
# The worked example of docs/guide/cpu.md: an express server that is busy, and what nodespy says of it. Prints what each command
# prints; writes target/guide/cpu.html, its picture, and flame.png, the one of the README.
#
#   tools/guide-cpu.sh     as root, after `cargo build --release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
folder=$root/target/guide
node=$("$root/tools/node.sh" 24)
"$root/tools/packages.sh" express
mkdir -p "$folder"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT

cd "$root"
"$node" workloads/express/app.js >"$folder/cpu.txt" &
app=$!
pids+=("$app")
port=
for _ in $(seq 100); do
    port=$(sed -n 's/^ready //p' "$folder/cpu.txt")
    [[ -z $port ]] || break
    sleep 0.1
done
"$node" workloads/load.js "$port" 60 >/dev/null &
pids+=($!)
sleep 2

run() { printf '\n$ nodespy %s\n' "$*"; "$nodespy" "$@"; }
run
run record -p "$app" -d 10 -o target/guide/cpu.html
run report target/guide/cpu.html --by route
run query target/guide/cpu.html 'top 5 total where package = app by line'
"$root/tools/picture.sh" "$folder/cpu.html" "$folder/cpu.png" 1100 820
"$root/tools/picture.sh" "$folder/cpu.html" "$folder/flame.png" 1320 860
