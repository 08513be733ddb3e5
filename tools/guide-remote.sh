#!/usr/bin/env bash
# The worked example of docs/guide/no-access.md: a recording that is given away, and one through a forwarded inspector. Prints
# what each command prints; writes target/guide/no-access.html and its picture.
#
#   tools/guide-remote.sh     after `cargo build --release`
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
"$node" workloads/express/app.js >"$folder/no-access.txt" &
app=$!
pids+=("$app")
port=
for _ in $(seq 100); do
    port=$(sed -n 's/^ready //p' "$folder/no-access.txt")
    [[ -z $port ]] || break
    sleep 0.1
done
"$node" workloads/load.js "$port" 60 >/dev/null &
pids+=($!)
sleep 2

run() { printf '\n$ nodespy %s\n' "$*"; "$nodespy" "$@"; }
run record -p "$app" -d 8 --redact -o target/guide/redacted.nspy
run report target/guide/redacted.nspy
printf '\n== what it does not say\n'
"$nodespy" report target/guide/redacted.nspy --format json | grep -c "$root" || true

# As `kill -USR1` on the server and `ssh -L` would.
kill -USR1 "$app"
sleep 1
run record --inspect-url ws://127.0.0.1:9229 -d 8 -o target/guide/no-access.html
"$root/tools/picture.sh" "$folder/no-access.html" "$folder/no-access.png" 1100 640
