#!/usr/bin/env bash
# How honest `nodespy diff` is on this machine: how often equal runs are called different, and how often a planted
# change is found.
#
#   benches/honesty/run.sh [RUNS]     RUNS recordings of each variant, 24 by default, in turns
#
# Recordings stay in target/honesty and are used again; remove the folder to record anew. A comparison draws its runs
# at random from them, 200 times for equal programs, 50 times for each planted change.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
runs=${1:-24}
folder=$root/target/honesty
node=$("$root/tools/node.sh" 24)
mkdir -p "$folder"

record() { # FACTOR NUMBER
    local file=$folder/$1-$2.nspy
    [[ -e $file ]] && return
    FACTOR=$1 "$nodespy" record -F 999 -o "$file" -- "$node" "$root/workloads/regression.js" >/dev/null 2>&1
}

# In turns, so that what the machine does meanwhile is in all of them.
for ((run = 1; run <= runs; run += 1)); do
    for factor in 1 1.05 1.10 1.25; do
        # Equal programs are compared with each other: there are twice as many.
        record "$factor" "$run"
        [[ $factor != 1 ]] || record 1 "$((run + runs))"
    done
done

RANDOM=1
drawn() { # FACTOR COUNT: files in random order; with two sets of COUNT for factor 1, both from one draw
    local numbers=() index other
    local all=$runs
    [[ $1 != 1 ]] || all=$((2 * runs))
    for ((index = 1; index <= all; index += 1)); do numbers+=("$index"); done
    for ((index = all - 1; index > 0; index -= 1)); do
        other=$((RANDOM % (index + 1)))
        local kept=${numbers[index]}
        numbers[index]=${numbers[other]}
        numbers[other]=$kept
    done
    for index in "${numbers[@]:0:$2}"; do printf '%s\n' "$folder/$1-$index.nspy"; done
}

verdicts() { # BEFORE... -- AFTER...: names of the functions called a regression
    "$nodespy" diff "$@" --format json 2>/dev/null |
        "$node" -e 'let t = ""; process.stdin.on("data", (d) => t += d).on("end", () => {
            for (const f of JSON.parse(t).functions) if (f.self.verdict === "regression") console.log(f.name);
        });'
}

printf '%-28s %s\n' "comparison" "called a regression"
for count in 5 10; do
    alarms=0
    for ((draw = 0; draw < 200; draw += 1)); do
        mapfile -t files < <(drawn 1 $((2 * count)))
        found=$(verdicts "${files[@]:0:count}" -- "${files[@]:count}")
        [[ -z $found ]] || alarms=$((alarms + 1))
    done
    printf '%-28s any function in %s of 200 (%s %%), at most 5 %% wanted\n' \
        "equal, $count against $count" "$alarms" "$((alarms / 2))"
    for factor in 1.05 1.10 1.25; do
        hits=0
        others=0
        for ((draw = 0; draw < 50; draw += 1)); do
            mapfile -t before < <(drawn 1 "$count")
            mapfile -t after < <(drawn "$factor" "$count")
            found=$(verdicts "${before[@]}" -- "${after[@]}")
            ! grep -qx hashInts <<<"$found" || hits=$((hits + 1))
            ! grep -qvx hashInts <<<"${found:-hashInts}" || others=$((others + 1))
        done
        printf '%-28s hashInts in %s of 50, another in %s\n' "x$factor, $count against $count" "$hits" "$others"
    done
done
