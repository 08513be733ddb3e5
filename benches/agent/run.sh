#!/bin/sh
# What `nodespy agent` costs beside COUNT busy Node processes: its own CPU time and memory, after a warm-up of 20 s.
#
#   benches/agent/run.sh [SECONDS [COUNT]]     NODESPY=target/release/nodespy RATE=19 for others
#
# A machine has at most as many samples a second as it has CPUs times RATE: the line says how many there were.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-60} count=${2:-10} rate=${RATE:-19}
nodespy=${NODESPY:-target/release/nodespy}
node=$(tools/node.sh 20)
folder=$(mktemp -d)
pids=''
finish() { kill $pids 2>/dev/null || true; rm -rf "$folder"; }
trap finish EXIT INT TERM

number=0
while [ "$number" -lt "$count" ]; do
    number=$((number + 1))
    mkdir "$folder/service-$number"
    echo "{\"name\":\"service-$number\",\"version\":\"1.0.0\"}" >"$folder/service-$number/package.json"
    cp workloads/mix.js workloads/truth.js "$folder/service-$number/"
    MS=$(((seconds + 60) * 1000)) nice -n 5 "$node" "$folder/service-$number/mix.js" >/dev/null &
    pids="$pids $!"
done
"$nodespy" agent --store "$folder/store" -F "$rate" 2>"$folder/log" &
agent=$!
pids="$pids $agent"

# CPU time in clock ticks: the 14th and 15th field, counted from behind the name.
ticks() { sed 's/.*) //' "/proc/$agent/stat" | awk '{ print $12 + $13 }'; }
sleep 20
before=$(ticks)
sleep "$seconds"
after=$(ticks)
memory=$(awk '/^VmHWM/ { hwm = $2 } /^RssAnon/ { anon = $2 } END { printf "%.1f MB at most, %.1f MB of its own now", hwm / 1000, anon / 1000 }' "/proc/$agent/status")
files=$(ls "/proc/$agent/fd" | wc -l)
kill -TERM "$agent"
wait "$agent" || true
load=$(cut -d' ' -f1 /proc/loadavg)
awk -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" -v seconds="$seconds" -v count="$count" -v rate="$rate" \
    -v memory="$memory" -v files="$files" -v load="$load" -v cpus="$(nproc)" 'BEGIN {
    printf "%d busy processes at %d Hz on %d CPUs (load %s): %.2f %% of a core, %s, %d open files\n",
        count, rate, cpus, load, 100 * ticks / hz / seconds, memory, files }'
tail -n 1 "$folder/log"
ls -l "$folder/store" | awk '/sqlite/ { print $9, $5, "bytes" }'
