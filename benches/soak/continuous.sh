#!/usr/bin/env bash
# Always-on profiling for an hour: an agent that sends to a server, beside a service of which a new version is deployed every two
# minutes. Every ten minutes the agent or the server, in turn, is killed with SIGKILL and started again.
#
#   benches/soak/continuous.sh [MINUTES]     60 by default; as root, after `cargo build --release`
#
# Every 30 s resident memory (KB) and open descriptors of both, the size of the server's store and of the agent's spool, and the CPU
# time that is stored go to target/soak-continuous/soak.tsv. Fails when
# - memory or descriptors of the last third are above those of the first (memory by more than a quarter),
# - what came in the last third takes a quarter more of the store for its CPU time than what came in the first,
# - windows wait in the agent's spool all through the minute after the last one,
# - a process lacks more windows than a kill of the agent may cost, in the last three hours, or
# - the CPU time that is stored is far from what the kernel counted: windows are missing or counted twice.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
minutes=${1:-60}
folder=${SOAK_FOLDER:-$root/target/soak-continuous}
node=$("$root/tools/node.sh" "${NODE:-24}") || exit
rm -rf "$folder"
mkdir -p "$folder"

server= agent= address= used=0 services=() began=$(date +%s)
end_all() { kill "$server" "$agent" "${services[@]}" 2>/dev/null; wait 2>/dev/null; }
trap end_all EXIT

start_server() {
    : >"$folder/address"
    "$nodespy" serve --store "$folder/store" --listen "${address:-127.0.0.1:0}" --ingest >"$folder/address" 2>>"$folder/serve.log" &
    server=$!
    until grep -q '^http' "$folder/address"; do
        kill -0 "$server" || { cat "$folder/serve.log"; exit 1; }
        sleep 0.1
    done
    address=$(sed -n '1s|^http://||; 1s|/$||; 1p' "$folder/address")
}
start_agent() {
    "$nodespy" agent --to "http://$address" --store "$folder/agent" 2>>"$folder/agent.log" &
    agent=$!
}
# Two processes of a version; of those before it, the oldest two end.
deploy() { # NUMBER
    local version=$folder/1.$1.0
    mkdir -p "$version"
    cp "$root/workloads/continuous/shop.js" "$version/"
    printf '{"name": "soak-shop", "version": "1.%s.0"}\n' "$1" >"$version/package.json"
    for _ in 1 2; do
        "$node" "$version/shop.js" >/dev/null 2>&1 &
        services+=("$!")
    done
    if ((${#services[@]} > 4)); then
        used=$((used + $(cpu_of "${services[@]:0:2}")))
        kill "${services[@]:0:2}"
        services=("${services[@]:2}")
    fi
}

# CPU time (ms) of processes so far.
cpu_of() { # PID...
    local pid
    for pid; do cat "/proc/$pid/stat"; done | awk '{ sum += $14 + $15 } END { print sum * 10 }'
}

of() { # PID: resident memory and descriptors
    local descriptors=(/proc/"$1"/fd/*)
    printf '%s\t%s' "$(awk '/^VmRSS/ { print $2 }' "/proc/$1/status")" "${#descriptors[@]}"
}
size_of() { du -sk "$1" 2>/dev/null | cut -f 1; }
# CPU time (ms) that the server has, and how many steps without any lie between others of a line, at most.
stored() { # PARAMETERS
    curl -s "http://$address/api/v1/series?$1" | "$node" -e '
        let [sum, missing] = [0, 0];
        for (const { weights } of JSON.parse(require("fs").readFileSync(0, "utf8")).series) {
            const used = weights.flatMap((weight, step) => (weight > 0 ? [step] : []));
            if (used.length > 0) missing = Math.max(missing, used.at(-1) - used[0] + 1 - used.length);
            sum += weights.reduce((all, one) => all + one, 0);
        }
        console.log(Math.round(sum / 1e6), missing);'
}
# Windows pass through the spool every ten seconds where other Node processes run: it is empty now and then.
spool_empties() {
    local spool=$folder/agent/to-server attempt
    for attempt in {1..60}; do
        [[ -d $spool && -z $(find "$spool" -name '*.windows') ]] && return
        sleep 1
    done
    find "$spool" -name '*.windows'
    return 1
}

start_server
deploy 0
start_agent
printf 'seconds\tserver_kb\tserver_fds\tagent_kb\tagent_fds\tstore_kb\tspool_kb\tstored_ms\tkills\n' >"$folder/soak.tsv"
SECONDS=0
deployments=1 kills=0 next=30
while ((SECONDS < minutes * 60)); do
    sleep 1
    if ((SECONDS >= deployments * 120)); then
        deploy "$deployments"
        deployments=$((deployments + 1))
    fi
    if ((SECONDS >= (kills + 1) * 600 && SECONDS < (minutes - 5) * 60)); then
        case $((kills % 2)) in
            0) kill -KILL "$agent"; wait "$agent" 2>/dev/null; start_agent ;;
            1) kill -KILL "$server"; wait "$server" 2>/dev/null; sleep 20; start_server ;;
        esac
        kills=$((kills + 1))
    fi
    if ((SECONDS >= next)); then
        next=$((next + 30))
        read -r all _ < <(stored "by=service&step=3600&from=$began")
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$SECONDS" "$(of "$server")" "$(of "$agent")" \
            "$(size_of "$folder/store")" "$(size_of "$folder/agent")" "$all" "$kills" >>"$folder/soak.tsv"
    fi
done

status=0
# A process starts anew with every kill, so that its memory is judged by what it comes to, not by where it started.
awk -F '\t' '
    # Without what is stored where the server did not answer at that moment.
    NR > 1 && $8 != "" { n++; for (i = 2; i <= 8; i++) row[n, i] = $i }
    function most(column, from, to, i, m) { for (i = from; i <= to; i++) if (row[i, column] > m) m = row[i, column]; return m }
    END {
        third = int(n / 3)
        split("server_kb server_fds agent_kb agent_fds store_kb spool_kb", name, " ")
        for (i = 2; i <= 7; i++) {
            early = most(i, 1, third); late = most(i, n - third + 1, n)
            printf "%-10s %8d in the first third, %8d in the last\n", name[i - 1], early, late
            if (i <= 5 && late > (i % 2 ? early + 8 : 1.25 * early + 2048)) bad = 1
        }
        # The first third has the names too, which are stored once.
        early = row[third, 6]; early_ms = row[third, 8]
        late = row[n, 6] - row[n - third, 6]; late_ms = row[n, 8] - row[n - third, 8]
        printf "%-10s %8d for %d ms in the first third, %8d for %d ms in the last\n", "growth", early, early_ms, late, late_ms
        if (late * early_ms > 1.25 * early * late_ms) bad = 1
        exit bad
    }' "$folder/soak.tsv" || { printf 'NOT FLAT\n'; status=1; }
# What is stored against what the kernel counted: a window twice is above it, one that is missing below.
used=$((used + $(cpu_of "${services[@]}")))
kill "${services[@]}"
services=()
sleep 30
spool_empties || { printf 'SPOOL NOT EMPTY\n'; status=1; }
read -r stored _ < <(stored "service=soak-shop&step=3600&from=$began")
printf 'CPU time of the services: %s ms by the kernel, %s ms stored\n' "$used" "$stored"
((stored > used * 93 / 100 && stored < used * 105 / 100)) || { printf 'MISSING or COUNTED TWICE\n'; status=1; }
# A kill of the agent may cost the window that goes on and the one before; no process lives through two.
read -r _ missing < <(stored "service=soak-shop&by=pid&step=10&from=$(($(date +%s) - 3 * 3600))")
printf 'windows missing of a process, at most: %s\n' "$missing"
[[ -n $missing ]] && ((missing <= (kills > 0 ? 2 : 0))) || { printf 'WINDOWS MISSING\n'; status=1; }
exit "$status"
