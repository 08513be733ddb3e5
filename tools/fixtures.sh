#!/usr/bin/env bash
# Records the files of fixtures/ anew, with the commands of the field on our own workloads, and writes
# each folder's README.md: which command and which version made which file.
#
#   tools/fixtures.sh              every folder
#   tools/fixtures.sh FOLDER…      some of: perf_data perf_script folded diff_folded cpuprofile
#                                  heapprofile v8_log chrome_trace pprof speedscope firefox fleet
#
# perf_script and firefox are made of what perf_data recorded. Files that were written by hand stay as
# they are. Runs as root, in a UTS namespace of its own, so that no file holds this machine's name, and
# from /tmp/nodespy-fixtures, so that none holds the checkout's path. Installs what it needs by name:
# Node versions, inferno and samply into target/, @datadog/pprof and py-spy into target/fixtures, Debian
# packages where they are missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ${NODESPY_FIXTURES_HOST:-} != set ]]; then
    NODESPY_FIXTURES_HOST=set exec unshare --uts "$0" "$@"
fi
hostname fixtures

tools="$root/tools/fixtures"
installed="$root/target/fixtures"
stage=/tmp/nodespy-fixtures
versions=(16.20.2 20.20.2 26.10.0)
# inferno's programs do not print their version.
inferno=$(sed -n 's/^crate inferno \([0-9.]*\) .*/\1/p' "$root/tools/peers.sh")

say() { printf 'tools/fixtures.sh: %s\n' "$*" >&2; }

# ---- What is needed

debian() { # PROGRAM PACKAGE
    command -v "$1" >/dev/null && return
    say "apt-get install $2"
    apt-get -qq install -y --no-install-recommends "$2" >&2
}

# A copy of a Node binary in a place that names no machine: perf and V8 write its path down.
place_node() { # VERSION
    local target="$stage/node${1%%.*}/bin/node"
    [[ -x $target ]] && return
    mkdir -p "$(dirname "$target")"
    cp "$("$root/tools/node.sh" "$1")" "$target"
}

# Nothing may be found there later: a recording's binary is looked for where it was.
clean() { rm -rf "$stage"; }

prepare() {
    trap clean EXIT
    mkdir -p "$stage/app" "$installed"
    cp "$root"/workloads/{mix,gc,workers,async,truth}.js "$tools"/{busy.py,pprof.js} "$stage/app/"
    local version
    for version in "${versions[@]}"; do place_node "$version"; done
    cd "$stage"
}

# ---- READMEs

# Empties a folder but for its README and the files that were written by hand.
begin() { # FOLDER TITLE [HAND-WRITTEN FILE]…
    folder="$root/fixtures/$1"
    mkdir -p "$folder"
    local keep=(-name README.md) name
    for name in "${@:3}"; do keep+=(-o -name "$name"); done
    find "$folder" -type f ! \( "${keep[@]}" \) -delete
    readme="$folder/README.md"
    {
        printf '# %s\n\n' "$2"
        cat
        printf '\n| file | made by |\n|---|---|\n'
    } >"$readme"
}

row() { printf '| %s | %s |\n' "$1" "$2" >>"$readme"; } # FILE WHAT

packed() { gzip -9 -n; }

# ---- perf

# Starts mix.js and waits until it is warmed up.
start() { # MAJOR [FLAG]…
    local line
    # Without the environment: a copy of the stack holds it.
    exec 8< <(exec env -i POOL="${pool:-1}" "$stage/node$1/bin/node" "${@:2}" app/mix.js)
    pid=$!
    read -r -u 8 line
    [[ $line == ready ]]
    # The pool has its threads from its first work on.
    sleep 0.5
}

finish() {
    kill "$pid"
    exec 8<&-
}

perf_flags=(--perf-basic-prof --interpreted-frames-native-stack)

perf_data() {
    debian perf linux-perf
    PEERS=few "$root/tools/peers.sh"
    local collapse="$root/target/peers/bin/inferno-collapse-perf" version major name
    begin perf_data 'perf.data' <<END
\`workloads/mix.js\` under \`node ${perf_flags[*]}\`, recorded by $(perf --version | sed 's/ version//') with \`perf record -g -p PID\` and
the options below, with what \`perf script\` prints of each and, for the larger ones, \`inferno-collapse-perf --all\`
of inferno $inferno of that.
END
    for version in "${versions[@]}"; do
        major=${version%%.*}
        name="node$major"
        start "$major" "${perf_flags[@]}"
        perf record -q -N -F 199 -e cpu-clock -g -p "$pid" -o "$name.perf.data" -- sleep 1.5
        finish
        perf script -i "$name.perf.data" >"$name.perf-script.txt" 2>/dev/null
        cp "$name.perf.data" "$folder/"
        mv "/tmp/perf-$pid.map" "$folder/$name.perf-$pid.map"
        packed <"$name.perf-script.txt" >"$folder/$name.perf-script.txt.gz"
        "$collapse" --all "$name.perf-script.txt" | packed >"$folder/$name.collapsed-all.txt.gz"
        row "$name.perf.data" "\`-e cpu-clock -F 199\`, node $version"
        row "$name.perf-$pid.map" "the perf map of that process"
        row "$name.perf-script.txt.gz" "\`perf script\` of it"
        row "$name.collapsed-all.txt.gz" "\`inferno-collapse-perf --all\` of that"
    done
    start 20 "${perf_flags[@]}"
    variant pipe.perf.data 0.3 -e cpu-clock -F 99 -g
    variant zstd.perf.data 0.3 -z -e cpu-clock -F 199 -g
    variant buildid.perf.data 0.3 --buildid-mmap -e cpu-clock -F 99 -g
    variant events.perf.data 0.8 -e context-switches -e cpu-clock -F 199 -g
    finish
    rm -f "/tmp/perf-$pid.map"
    # Only the main thread: the stacks of every sample end in node::Start.
    pool=0 start 20 "${perf_flags[@]}"
    variant dwarf.perf.data 0.5 -e cpu-clock -F 49 --call-graph dwarf,8192
    finish
    rm -f "/tmp/perf-$pid.map"
}

# A recording of node 20 made in another way, with its text.
variant() { # FILE SECONDS [OPTION]…
    local name=$1 seconds=$2
    shift 2
    if [[ $name == pipe.* ]]; then
        perf record -q "$@" -p "$pid" -o - -- sleep "$seconds" >"$name"
        row "$name" "\`$* -o -\`, node 20.20.2"
    else
        perf record -q -N "$@" -p "$pid" -o "$name" -- sleep "$seconds"
    fi
    perf script -i "$name" 2>/dev/null | packed >"$folder/${name%.perf.data}.perf-script.txt.gz"
    case $name in
        events.* | dwarf.*)
            packed <"$name" >"$folder/$name.gz"
            row "$name.gz" "\`$*\`, node 20.20.2"
            ;;
        pipe.*) cp "$name" "$folder/" ;;
        *)
            cp "$name" "$folder/"
            row "$name" "\`$*\`, node 20.20.2"
            ;;
    esac
    row "${name%.perf.data}.perf-script.txt.gz" "\`perf script\` of it"
}

perf_script() {
    debian perf linux-perf
    PEERS=few "$root/tools/peers.sh"
    local collapse="$root/target/peers/bin/inferno-collapse-perf" name option input
    begin perf_script 'perf script' <<END
Texts of $(perf --version | sed 's/ version//'), and what \`inferno-collapse-perf\` of inferno $inferno makes of each with an option. node16, node20 and
node26 are the texts of \`../perf_data\`.
END
    perf record -q -N -F 997 -e cpu-clock --sample-cpu -g -o dd.perf.data dd if=/dev/zero of=copy bs=64k count=1000 status=none
    perf record -q -N -F 499 -e context-switches -e cpu-clock -g -o sh.perf.data \
        sh -c 'for i in 1 2 3; do sleep 0.01; seq 40000 | sort -R | tail -1; done' >/dev/null
    perf record -q -N -F 997 -e cpu-clock -o flat.perf.data dd if=/dev/zero of=copy bs=64k count=500 status=none
    texts dd dd.perf.data
    texts dd-header dd.perf.data --header
    texts dd-fields dd.perf.data -F comm,pid,tid,cpu,time,event,ip,sym,dso
    texts dd-offsets dd.perf.data -F comm,tid,time,period,event,ip,sym,symoff,dso
    texts sh-events sh.perf.data
    texts flat flat.perf.data
    for name in dd dd-header dd-fields dd-offsets sh-events flat node16 node20 node26; do
        input="$folder/$name.txt.gz"
        [[ -f $input ]] || input="$root/fixtures/perf_data/$name.perf-script.txt.gz"
        for option in '' addrs all jit kernel pid tid; do
            gzip -dc "$input" | "$collapse" ${option:+--$option} 2>/dev/null |
                packed >"$folder/$name-collapsed${option:+-$option}.txt.gz"
            row "$name-collapsed${option:+-$option}.txt.gz" "\`inferno-collapse-perf${option:+ --$option}\`"
        done
    done
}

texts() { # NAME PERF.DATA [OPTION]…
    local script=(perf script "${@:3}")
    "${script[@]}" -i "$2" | packed >"$folder/$1.txt.gz"
    case $2 in
        dd.*) row "$1.txt.gz" "\`perf record -F 997 -e cpu-clock --sample-cpu -g dd bs=64k count=1000 …\`, \`${script[*]}\`" ;;
        sh.*) row "$1.txt.gz" "\`perf record -F 499 -e context-switches -e cpu-clock -g sh -c …\`, \`perf script\`" ;;
        *) row "$1.txt.gz" "\`perf record -F 997 -e cpu-clock dd bs=64k count=500 …\`, \`perf script\`" ;;
    esac
}

# ---- Folded stacks

folded() {
    py_spy
    begin folded 'Folded stacks' recursion.txt invalid-lines.txt tall.txt <<END
\`tools/fixtures/busy.py\` recorded by $("$installed/python/bin/py-spy" --version), in several encodings; and small texts written by hand.
END
    record_python raw "$folder/py-spy.txt"
    sed 's/$/\r/' "$folder/py-spy.txt" >"$folder/py-spy-crlf.txt"
    { printf '\xff\xfe'; iconv -t UTF-16LE "$folder/py-spy.txt"; } >"$folder/py-spy-utf16le.txt"
    { printf '\xfe\xff'; iconv -t UTF-16BE "$folder/py-spy.txt"; } >"$folder/py-spy-utf16be.txt"
    row py-spy.txt '`py-spy record --format raw -r 200 -d 1 -- python busy.py`'
    row py-spy-crlf.txt 'py-spy.txt with CR LF at the ends of its lines'
    row py-spy-utf16le.txt '`iconv -t UTF-16LE` of py-spy.txt, behind a byte order mark'
    row py-spy-utf16be.txt '`iconv -t UTF-16BE` of py-spy.txt, behind a byte order mark'
    row recursion.txt 'by hand: a function that calls itself, directly and through another'
    row tall.txt 'by hand: one stack that is deep and one that is flat'
    row invalid-lines.txt 'by hand: good lines among lines without a count, without a stack and with neither'
}

diff_folded() {
    PEERS=few "$root/tools/peers.sh"
    local diff="$root/target/peers/bin/inferno-diff-folded" name before
    begin diff_folded 'Differences of folded stacks' before.txt after.txt before-fractions.txt before-bad.txt <<END
What \`inferno-diff-folded\` of inferno $inferno prints of two texts with each option. It prints its lines in the order of a
hash table; here they are sorted.
END
    row before.txt 'by hand: stacks with addresses in them'
    row after.txt 'by hand: the same program later: stacks that grew, shrank, came and went'
    row before-fractions.txt 'by hand: before.txt with counts that are no whole numbers'
    row before-bad.txt 'by hand: before.txt with a line that has no count'
    for name in default normalize strip-hex fractions; do
        before=before.txt
        case $name in
            default) options=() ;;
            normalize) options=(--normalize) ;;
            strip-hex) options=(--strip-hex) ;;
            fractions) options=() before=before-fractions.txt ;;
        esac
        (cd "$folder" && "$diff" "${options[@]}" "$before" after.txt | LC_ALL=C sort) >"$folder/$name.expected.txt"
        row "$name.expected.txt" "\`inferno-diff-folded${options[*]:+ ${options[*]}} $before after.txt\`"
    done
    local one="$root/fixtures/perf_data/node16.collapsed-all.txt.gz" two="$root/fixtures/perf_data/node20.collapsed-all.txt.gz"
    gzip -dc "$one" >one.txt
    gzip -dc "$two" >two.txt
    "$diff" --normalize one.txt two.txt | LC_ALL=C sort | packed >"$folder/node16-node20.expected.txt.gz"
    row node16-node20.expected.txt.gz '`inferno-diff-folded --normalize` of node16.collapsed-all.txt.gz and node20.collapsed-all.txt.gz of `../perf_data`, unpacked'
}

# ---- V8

cpuprofile() {
    begin cpuprofile "V8's CPU profiles" <<'END'
`node --cpu-prof` of `workloads/mix.js` with `MS=700 POOL=0`.
END
    local version name
    for version in "${versions[@]}"; do
        name="node${version%%.*}.cpuprofile"
        MS=700 POOL=0 "node${version%%.*}/bin/node" --cpu-prof --cpu-prof-interval 2000 \
            --cpu-prof-name "$name" app/mix.js >/dev/null
        mv "$name" "$folder/$name"
        row "$name" "\`--cpu-prof-interval 2000\`, node $version"
    done
    "node20/bin/node" "$tools/nested.js" <"$folder/node20.cpuprofile" >"$folder/node20-nested.cpuprofile"
    row node20-nested.cpuprofile '`tools/fixtures/nested.js` of node20.cpuprofile: as the v8-profiler package wrote it, one node inside the other and the time of each sample'
}

heapprofile() {
    begin heapprofile "V8's heap profiles" <<'END'
`node --heap-prof` of `workloads/gc.js` with `MS=300`.
END
    local version name
    for version in "${versions[@]}"; do
        name="node${version%%.*}.heapprofile"
        MS=300 "node${version%%.*}/bin/node" --heap-prof --heap-prof-interval 32768 \
            --heap-prof-name "$name" app/gc.js >/dev/null
        mv "$name" "$folder/$name"
        row "$name" "\`--heap-prof-interval 32768\`, node $version"
    done
}

v8_log() {
    debian nm binutils
    begin v8_log "V8's logs" <<'END'
`node --prof` of `workloads/mix.js` with `MS=1500`, and what the same binary's `--prof-process` prints of each.
END
    local version major name node
    for version in "${versions[@]}"; do
        major=${version%%.*}
        name="node$major-v8.log" node="node$major/bin/node"
        rm -f "$name"
        MS=1500 "$stage/$node" --prof --no-logfile-per-isolate --logfile="$name" app/mix.js >/dev/null
        "$stage/$node" --prof-process "$name" 2>/dev/null >"$folder/node$major.prof-process.txt"
        packed <"$name" >"$folder/$name.gz"
        row "$name.gz" "\`--prof --no-logfile-per-isolate\`, node $version"
        row "node$major.prof-process.txt" "\`--prof-process $name\`"
    done
    "$stage/node20/bin/node" --prof-process --preprocess -j node20-v8.log 2>/dev/null |
        packed >"$folder/node20.preprocessed.json.gz"
    row node20.preprocessed.json.gz '`--prof-process --preprocess -j node20-v8.log`'
}

chrome_trace() {
    py_spy
    local hand=(begin-end.json begin-end-open.json complete.json processes.json stack-frames.json stack-frames-threads.json)
    begin chrome_trace 'Trace events' "${hand[@]}" <<'END'
Traces that Node writes while `--cpu-prof` runs, without the second profile of each thread
(`tools/fixtures/one-profile.js`), one that py-spy writes, and small ones written by hand.
END
    local categories=v8,node.perf,disabled-by-default-v8.cpu_profiler version name
    for version in "${versions[@]}"; do
        name="node${version%%.*}.json"
        trace_of "node${version%%.*}" "$categories" "$name" app/mix.js
        row "$name.gz" "\`--cpu-prof --trace-event-categories $categories\` of \`workloads/mix.js\`, node $version"
    done
    trace_of node20 "$categories" node20-workers.json app/workers.js
    row node20-workers.json.gz "the same of \`workloads/workers.js\`, node 20.20.2"
    record_python chrometrace "$folder/py-spy.json"
    row py-spy.json "\`py-spy record --format chrometrace -r 200 -d 1 -- python busy.py\`, $("$installed/python/bin/py-spy" --version)"
    row begin-end.json 'by hand: pairs of B and E'
    row begin-end-open.json 'by hand: the same without the last bracket, as a writer leaves it that was killed'
    row complete.json 'by hand: the same time as events with a length (X)'
    row processes.json 'by hand: two processes of two threads each, all with names'
    row stack-frames.json 'by hand: samples that name stacks in `stackFrames`'
    row stack-frames-threads.json 'by hand: the same of two threads'
}

trace_of() { # NODE CATEGORIES FILE SCRIPT
    MS=700 POOL=0 "$1/bin/node" --cpu-prof --cpu-prof-interval 2000 --cpu-prof-dir "$stage/unused" \
        --trace-event-categories "$2" --trace-event-file-pattern "$3" "$4" >/dev/null
    node20/bin/node "$tools/one-profile.js" <"$3" | packed >"$folder/$3.gz"
}

# ---- Others

pprof() {
    debian go golang-go
    if [[ ! -d $installed/node_modules/@datadog/pprof ]]; then
        say "npm install @datadog/pprof@5.20.0"
        npm install --prefix "$installed" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
            @datadog/pprof@5.20.0 >&2
    fi
    begin pprof 'pprof' <<END
Profiles of Go's own runtime and of npm's \`@datadog/pprof\`, and what \`go tool pprof\` says of each ($(go version | cut -d' ' -f3)).
END
    mkdir -p go
    GOCACHE="$installed/go" go build -trimpath -o go/busy "$tools/busy.go"
    go/busy go.pb.gz
    cp -r "$installed/node_modules" .
    MS=1200 POOL=0 node20/bin/node app/pprof.js
    row go.pb.gz '`tools/fixtures/busy.go`: `runtime/pprof.StartCPUProfile`'
    row node20-wall.pb.gz '`tools/fixtures/pprof.js`: `time.start` of @datadog/pprof 5.20.0 on `workloads/mix.js`, node 20.20.2'
    row node20-heap.pb.gz 'the same script: `heap.start`'
    local name
    for name in go node20-wall node20-heap; do
        cp "$name.pb.gz" "$folder/"
        go tool pprof -symbolize=demangle=none -raw "$name.pb.gz" 2>/dev/null >"$folder/$name.raw.txt"
        row "$name.raw.txt" "\`go tool pprof -symbolize=demangle=none -raw $name.pb.gz\`"
    done
}

# What instances of a service look like: one server under load, recorded again and again.
fleet() {
    "$root/tools/packages.sh" express
    cargo build --quiet --release --manifest-path "$root/Cargo.toml" --bin nodespy
    begin fleet 'A real service, of which tests make fleets' <<END
\`nodespy record -F 999 -d 6\` of \`workloads/express/app.js\` on node 20.20.2 under \`workloads/load.js\`, four times in a row.
END
    cp -r "$root/workloads/express" "$root/workloads/load.js" app/
    : >server.log
    MS=90000 node20/bin/node app/express/app.js >server.log &
    local server=$! number
    until grep -q '^ready' server.log; do sleep 0.1; done
    node20/bin/node app/load.js "$(sed -n 's/^ready //p' server.log)" 60 >load.log &
    local load=$!
    sleep 8
    for number in 1 2 3 4; do
        "$root/target/release/nodespy" record -q -F 999 -d 6 -p "$server" -o "express-$number.pb.gz" >/dev/null
        cp "express-$number.pb.gz" "$folder/"
        row "express-$number.pb.gz" "recording $number"
    done
    kill "$load" "$server"
    wait "$load" "$server" || true
}

py_spy() {
    debian /usr/bin/python3 python3
    [[ -x $installed/python/bin/py-spy ]] && return
    say "pip install py-spy==0.4.3"
    python3 -m venv "$installed/python"
    "$installed/python/bin/pip" install --quiet py-spy==0.4.3
}

record_python() { # FORMAT FILE
    "$installed/python/bin/py-spy" record --format "$1" -r 200 -d 1 -o "$2" -- \
        /usr/bin/python3 -I -S app/busy.py >/dev/null 2>&1
}

speedscope() {
    py_spy
    begin speedscope 'speedscope' evented.speedscope.json two-sampled.speedscope.json out-of-order.speedscope.json <<END
A profile of $("$installed/python/bin/py-spy" --version), and small files written by hand after speedscope's schema.
END
    record_python speedscope "$folder/py-spy.speedscope.json"
    row py-spy.speedscope.json '`py-spy record --format speedscope -r 200 -d 1 -- python busy.py` (`tools/fixtures/busy.py`)'
    row evented.speedscope.json 'by hand: frames that open and close'
    row two-sampled.speedscope.json 'by hand: two profiles of samples with weights in milliseconds'
    row out-of-order.speedscope.json 'by hand: a frame that closes while one it called is open, and one that closes twice'
}

firefox() {
    "$root/tools/peers.sh"
    local samply="$root/target/peers/bin/samply"
    begin firefox "The Firefox Profiler's format" <<END
What \`samply import\` of $("$samply" --version) makes of perf.data files of \`../perf_data\`, with no names but V8's.
END
    local map name
    for name in node16 node20; do
        map=$(basename "$root"/fixtures/perf_data/$name.perf-*.map)
        cp "$root/fixtures/perf_data/$name.perf.data" .
        cp "$root/fixtures/perf_data/$map" "/tmp/${map#"$name."}"
        "$samply" import --save-only -o "$name.json.gz" "$name.perf.data" >&2
        rm -f "/tmp/${map#"$name."}"
        cp "$name.json.gz" "$folder/"
        row "$name.json.gz" "\`samply import --save-only $name.perf.data\`"
    done
}

# ---- One run

all=(perf_data perf_script folded diff_folded cpuprofile heapprofile v8_log chrome_trace pprof speedscope firefox fleet)
asked=("$@")
((${#asked[@]})) || asked=("${all[@]}")
for one in "${asked[@]}"; do
    [[ " ${all[*]} " == *" $one "* ]] || { say "no folder $one; there are ${all[*]}"; exit 2; }
done
prepare
for one in "${asked[@]}"; do
    say "$one"
    "$one"
    chmod 644 "$folder"/*
    for file in "$folder"/*; do
        if gzip -dcf "$file" | grep -qaF -e "$root" -e "$HOME/"; then
            say "$file holds a path of this machine"
            exit 1
        fi
    done
done
say "all of fixtures/ is $(du -sh "$root/fixtures" | cut -f1)"
