#!/usr/bin/env bash
# The worked example of docs/guide/files.md: the same program recorded by perf, by node --cpu-prof and by node --prof, and what
# nodespy says of each file. Writes target/guide/files.html and its picture.
#
#   tools/guide-files.sh     as root, with perf, after `cargo build --release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
node=$("$root/tools/node.sh" 22)
folder=$root/target/guide/files
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
cp "$root/workloads/native.js" "$root/workloads/truth.js" .

# What others have left: a perf.data with a perf map, a .cpuprofile, a log of V8.
MS=6000 "$node" --perf-basic-prof --interpreted-frames-native-stack native.js >/dev/null &
program=$!
sleep 1
perf record --quiet -F 99 -g -p "$program" -o perf.data -- sleep 4
perf script -i perf.data >perf.txt 2>/dev/null
wait "$program"
rm isolate-*.log
MS=4000 "$node" --cpu-prof native.js >/dev/null
MS=4000 "$node" --prof native.js >/dev/null
ls -lh perf.data perf.txt ./*.cpuprofile isolate-*.log | awk '{ print $5, $9 }'

run() { printf '\n$ nodespy %s\n' "$*"; "$nodespy" "$@"; }
run report perf.data
run report perf.txt
run report ./*.cpuprofile
run report isolate-*.log --format text
run convert perf.data out.cpuprofile
run convert perf.data out.pb.gz
run convert perf.data files.html
"$root/tools/picture.sh" "$folder/files.html" "$root/target/guide/files.png" 1100 640
