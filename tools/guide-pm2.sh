#!/usr/bin/env bash
# The worked example of docs/guide/pm2.md: three workers of pm2, one of which is busy with something else. Prints what each command
# prints; writes target/guide/pm2.html and its picture.
#
#   tools/guide-pm2.sh     after `cargo build --release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
folder=$root/target/guide
node=$("$root/tools/node.sh" 24)
"$root/tools/packages.sh" pm2
mkdir -p "$folder"
# A daemon of its own, which ends with this script.
PM2_HOME=$(mktemp -d)
export PM2_HOME PATH=${node%/*}:$PATH
pm2() { "$node" "$root/workloads/pm2/node_modules/pm2/bin/pm2" "$@" >/dev/null; }
app=$(mktemp -d /tmp/shop-XXXX)
trap 'pm2 kill; rm -rf "$PM2_HOME" "$app"' EXIT

cp "$root"/workloads/shop/* "$app"
cd "$root"
ODD=1 EASE=20 PORT=3055 pm2 start "$app/server.js" --name api -i 3
sleep 4
run() { printf '\n$ nodespy %s\n' "$*"; "$nodespy" "$@"; }
run
run record --pm2 api -d 10 -o target/guide/pm2.html
run report target/guide/pm2.html --label pm2-id=1
"$root/tools/picture.sh" "$folder/pm2.html" "$folder/pm2.png" 1100 680
