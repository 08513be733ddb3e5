#!/usr/bin/env bash
# Makes the inputs of the comparison with the peers, once: recordings of benches/peers/bundler by perf
# and by V8, and text made from them by perf and inferno (tools/peers.sh installs it).
#
#   benches/peers/inputs.sh FOLDER [SMALL_SECONDS LARGE_SECONDS]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?"usage: benches/peers/inputs.sh FOLDER [SMALL_SECONDS LARGE_SECONDS]"}
small=${2:-60}
large=${3:-120}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
job="$here/bundler/bundler.js"

say() { printf 'benches/peers/inputs.sh: %s\n' "$*" >&2; }

if [[ ! -d $here/bundler/node_modules ]]; then
    say "npm ci in benches/peers/bundler"
    npm ci --prefix "$here/bundler" --no-audit --no-fund --ignore-scripts --loglevel=error >&2
fi

perf_record() { # NAME RATE SECONDS
    [[ -s $folder/$1.perf.data ]] && return
    say "$1.perf.data: $3 s at $2 Hz"
    # Node writes a log beside the map, into the folder it runs in.
    (cd "$folder" && exec node --perf-basic-prof --interpreted-frames-native-stack "$job" "$3" >/dev/null) &
    local pid=$!
    perf record -e cpu-clock -F "$2" --call-graph fp -p $pid -o "$folder/$1.part" 2>"$folder/$1.said" || true
    wait $pid
    grep -oE '[0-9]+ samples' "$folder/$1.said" | cut -d' ' -f1 >"$folder/$1.samples"
    cp "/tmp/perf-$pid.map" "$folder/$1.perf-$pid.map"
    mv "$folder/$1.part" "$folder/$1.perf.data"
    rm -f "$folder"/isolate-*-"$pid"-v8.log
    ls -l "$folder/$1.perf.data" >&2
}

perf_record bld-999 999 "$small"
perf_record bld-10k 9999 "$large"

if [[ ! -s $folder/bld-1GB.perf.data ]]; then
    say "bld-1GB.perf.data: bld-10k seven times"
    cargo run --quiet --release --manifest-path "$here/../Cargo.toml" --bin repeat -- \
        "$folder/bld-10k.perf.data" "$folder/1GB.part" 7 >"$folder/bld-1GB.samples"
    for map in "$folder"/bld-10k.perf-*.map; do
        ln -sf "$map" "$folder/bld-1GB${map##*/bld-10k}"
    done
    mv "$folder/1GB.part" "$folder/bld-1GB.perf.data"
fi

if [[ ! -s $folder/bld-999.script.txt ]]; then
    say "bld-999.script.txt"
    perf script --no-inline -i "$folder/bld-999.perf.data" >"$folder/text.part" 2>/dev/null
    mv "$folder/text.part" "$folder/bld-999.script.txt"
fi

if [[ ! -s $folder/bld-999.folded ]]; then
    say "bld-999.folded"
    "$here/../../target/peers/bin/inferno-collapse-perf" --all "$folder/bld-999.script.txt" >"$folder/folded.part"
    mv "$folder/folded.part" "$folder/bld-999.folded"
fi

if [[ ! -s $folder/bld.cpuprofile ]]; then
    say "bld.cpuprofile: $small s, a sample each 50 us"
    node --cpu-prof --cpu-prof-interval 50 --cpu-prof-dir "$folder" --cpu-prof-name cpuprofile.part \
        "$job" "$small" >/dev/null
    mv "$folder/cpuprofile.part" "$folder/bld.cpuprofile"
fi

if [[ ! -s $folder/bld.v8.log ]]; then
    say "bld.v8.log: $large s"
    (cd "$folder" && node --prof --no-logfile-per-isolate --logfile="$folder/v8log.part" "$job" "$large" >/dev/null)
    mv "$folder/v8log.part" "$folder/bld.v8.log"
fi
ls -l "$folder" >&2
