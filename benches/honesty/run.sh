#!/usr/bin/env bash
# Records a small program and variants of it, in turns, and prints how honest `nodespy diff` is about them.
#
#   benches/honesty/run.sh [RUNS]     RUNS recordings of each variant, 12 by default; four times as many of the program
#                                     itself, which is compared with itself
#
# Recordings stay in target/honesty and are used again; remove the folder to record anew. NODESPY and HONESTY are other
# binaries to use, JOBS is how many recordings are made at once: more than one makes a machine noisy on purpose.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
honesty=${HONESTY:-$root/target/release/honesty}
runs=${1:-12}
jobs=${JOBS:-1}
variants=${VARIANTS:-equal x1.05 equal x1.10 equal renamed moved equal split minor slowed}
folder=$root/target/honesty
program=$root/workloads/regression.js
node=$("$root/tools/node.sh" 24)
other_node=$("$root/tools/node.sh" 24.0.2)
mkdir -p "$folder"/{plain,renamed,moved,split}

# Changes that are none: another name, another file, a helper that the compiler inlines.
cp "$program" "$folder/plain/program.js"
sed 's/hashInts/hashNumbers/g' "$program" >"$folder/renamed/program.js"
cp "$program" "$folder/moved/work.js"
sed 's|k = k % 2 ? 3 \* k + 1 : k / 2;|k = next(k);|; s|^function collatz|function next(k) { return k % 2 ? 3 * k + 1 : k / 2; }\n&|' \
    "$program" >"$folder/split/program.js"

record() { # VARIANT NUMBER
    local file=$folder/$1-$2.nspy factor=1 script=$folder/plain/program.js binary=$node busy= pinned=()
    [[ ! -e $file ]] || return 0
    case $1 in
        x*) factor=${1#x} ;;
        renamed | split) script=$folder/$1/program.js ;;
        moved) script=$folder/moved/work.js ;;
        minor) binary=$other_node ;;
        # Another program that takes half of the same CPU.
        slowed)
            taskset -c 0 "$node" -e 'const a = new Uint8Array(1 << 25); for (;;) for (let i = 0; i < a.length; i += 64) a[i] += 1' &
            busy=$!
            pinned=(taskset -c 0)
            ;;
    esac
    TURNS=80 FACTOR=$factor "$nodespy" record -F 999 -o "$file.new.nspy" -- "${pinned[@]}" "$binary" "$script" >/dev/null 2>&1 || true
    [[ -z $busy ]] || kill "$busy"
    [[ ! -e $file.new.nspy ]] || mv "$file.new.nspy" "$file"
}

# In turns, so that what the machine does meanwhile is in all of them.
for ((run = 1; run <= runs; run += 1)); do
    for variant in $variants; do
        number=$run
        if [[ $variant == equal ]]; then
            equal=$((${equal:-0} + 1))
            number=$equal
        fi
        record "$variant" "$(printf '%03d' "$number")" &
        while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
    done
done
wait
"$honesty" "$folder"
