#!/usr/bin/env bash
# A long recording of a server that lives as servers do: replaced every 20 s, with workers that come and go and short
# children. Recorded by perf events at 99 Hz and by the inspector with slices of 10 s, at the same time.
#
#   benches/soak/run.sh [MINUTES]     60 by default
#
# Every 30 s resident memory (KB) and open descriptors of both go to target/soak/ENGINE.tsv, and what share of the
# frames had a name so far, read from a copy of the journal. Fails when memory or descriptors of the last third are
# above those after the first minute (memory: by more than a quarter), or names are below 99.9 %.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
minutes=${1:-60}
folder=${SOAK_FOLDER:-$root/target/soak}
node=$("$root/tools/node.sh" "${NODE:-24}") || exit
rm -rf "$folder"
mkdir -p "$folder"
: >"$folder/server.txt"

MS=$(((minutes + 5) * 60000)) "$node" "$root/workloads/deployments.js" >"$folder/server.txt" 2>&1 &
server=$!
until grep -q ready "$folder/server.txt"; do
    kill -0 "$server" 2>/dev/null || { cat "$folder/server.txt"; exit 1; }
    sleep 0.2
done

declare -A recorder
record() { # ENGINE OPTION...
    "$nodespy" record -q -p "$server" -d "${minutes}m" --engine "$@" -o "$folder/$1.nspy" >"$folder/$1.txt" 2>&1 &
    recorder[$1]=$!
    printf 'seconds\tresident_kb\tanonymous_kb\tdescriptors\tnamed_percent\tunknown_percent\tprocesses\tjournal_kb\n' >"$folder/$1.tsv"
}
stop() { kill -TERM "$server" "${recorder[@]}" 2>/dev/null; }
trap stop EXIT
record perf -F 99
record inspector --slice 10s

# What the report of a recording says of names: percent of the JIT frames, percent of the time that is unknown, processes.
names() { # FILE
    "$nodespy" report "$1" --format json 2>/dev/null | "$node" -e '
        let text = "";
        process.stdin.on("data", (data) => text += data).on("end", () => {
            if (!text) return console.log("-\t-\t-");
            const report = JSON.parse(text);
            const unknown = report.subsystems.find((part) => part.name === "unknown");
            const named = report.confidence.jit_frames_named_percent;
            console.log([named ?? "-", (unknown?.percent ?? 0).toFixed(3), report.processes.length].join("\t"));
        })'
}

measure() { # ENGINE
    local pid=${recorder[$1]} status copy=$folder/copy.nspy
    status=$(awk '/^VmRSS|^RssAnon/ { print $2 }' "/proc/$pid/status" 2>/dev/null | paste -s) || return
    [[ $status ]] || return
    local descriptors=(/proc/"$pid"/fd/*) journal=$folder/$1.nspy.journal size=0
    rm -f "$copy" "$copy.journal"
    if [[ -e $journal ]]; then
        size=$(($(stat -c %s "$journal") / 1024))
        cp "$journal" "$copy.journal"
        "$nodespy" recover "$copy.journal" -o "$copy" >/dev/null 2>&1
    fi
    printf '%s\t%s\t%s\t%s\t%s\n' "$SECONDS" "$status" "${#descriptors[@]}" "$(names "$copy")" "$size" >>"$folder/$1.tsv"
    rm -f "$copy" "$copy.journal"
}

is_over() { ! kill -0 "${recorder[perf]}" 2>/dev/null && ! kill -0 "${recorder[inspector]}" 2>/dev/null; }

SECONDS=0
next=30
until is_over; do
    sleep 1
    # At the end a recording is read from its journal, which is another thing.
    ((SECONDS >= next && SECONDS < minutes * 60)) || continue
    next=$((next + 30))
    measure perf
    measure inspector
done

failed=0
for engine in perf inspector; do
    wait "${recorder[$engine]}" || { printf '%s: exit %s\n' "$engine" "$?"; failed=1; }
    cat "$folder/$engine.txt"
    last=$(names "$folder/$engine.nspy")
    # Flat: in the last third descriptors are what they were in the second and third minute, give or take a process,
    # and memory at most a quarter more: the journal knows every distinct stack it has written, and these become
    # fewer, but never none.
    awk -F '\t' -v engine="$engine" -v last="$last" '
        NR == 1 { next }
        { n++; memory[n] = $3; open[n] = $4; seconds[n] = $1 }
        function most(list, from, to, i, m) { for (i = from; i <= to; i++) if (list[i] > m) m = list[i]; return m }
        END {
            for (first = 1; first < n && seconds[first] < 60; first++);
            early = first + 4 < n ? first + 4 : n
            late = int(n * 2 / 3) + 1
            split(last, names, "\t")
            printf "%s: anonymous memory %d KB early, %d KB late; descriptors %d early, %d late; named %s %%, unknown %s %%\n", \
                engine, most(memory, first, early), most(memory, late, n), most(open, first, early), most(open, late, n), names[1], names[2]
            bad = most(memory, late, n) > 1.25 * most(memory, first, early) + 2048 || most(open, late, n) > most(open, first, early) + 8 || \
                (names[1] != "-" && names[1] < 99.9) || names[2] > 0.1
            exit bad
        }' "$folder/$engine.tsv" || { printf '%s: NOT FLAT or not named\n' "$engine"; failed=1; }
done
exit "$failed"
