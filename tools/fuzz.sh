#!/usr/bin/env bash
# Runs fuzz targets one after the other, each for so many seconds of CPU time, with the files of fixtures/ as seeds.
# Needs a nightly compiler; cargo-fuzz is installed into target/tools.
#
#   tools/fuzz.sh                 every target for a minute
#   tools/fuzz.sh 600             every target for ten
#   tools/fuzz.sh 600 nspy heap   these two
#   tools/fuzz.sh build           only builds them
#
# Prints what each executed; a finding is in fuzz/artifacts/TARGET, and makes the exit code 1.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=${1:-60}
shift || true
export PATH=$root/target/tools/bin:$PATH

if ! cargo +nightly --version >/dev/null 2>&1; then
    printf 'tools/fuzz.sh: a nightly compiler is missing: rustup toolchain install nightly\n' >&2
    exit 1
fi
if ! command -v cargo-fuzz >/dev/null; then
    printf 'tools/fuzz.sh: cargo install cargo-fuzz\n' >&2
    cargo install --quiet --debug --locked --root "$root/target/tools" cargo-fuzz
fi
cd "$root/fuzz"
# The parsers are safe Rust: a sanitizer would find nothing more and halve the speed.
cargo +nightly fuzz build -s none >&2
[[ $seconds != build ]] || exit 0
# Run as they are: `cargo fuzz run` would hold cargo's lock for as long as it lasts.
binaries=$(rustc +nightly -vV | sed -n 's/^host: //p')
binaries=${CARGO_TARGET_DIR:-target}/$binaries/release
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(cargo +nightly fuzz list)

# Small fixtures only: libFuzzer mutates whole files.
seeds() { # TARGET
    local target=$1 folder=../fixtures/$1 corpus=corpus/$1
    mkdir -p "$corpus"
    case $target in
        html) folder=../fixtures/view ;;
        nspy | journal) folder=../fixtures/nspy ;;
        perf_map | jitdump) folder=../fixtures/perf_data ;;
        stack_text | bpftrace) folder=../fixtures/folded ;;
        # A small file that every Linux has.
        elf) head -c 262144 /bin/true >"$corpus/true" ;;
        # A module with an import, an export and a section of names: its first bytes are never guessed.
        wasm_names)
            printf '\0asm\1\0\0\0\1\4\1\140\0\0\2\7\1\1a\1b\0\0\3\2\1\0\7\5\1\1f\0\1\12\4\1\2\0\13' >"$corpus/seed"
            printf '\0\15\4name\1\6\1\1\3run' >>"$corpus/seed"
            ;;
        query) sed -n '/^nodespy query/s/.*'\''\(.*\)'\''.*/\1/p' ../docs/query.md | split -l 1 - "$corpus/seed-" ;;
        http_body) printf '4\r\nwiki\r\n5;x=y\r\npedia\r\n0\r\n\r\n' >"$corpus/seed" ;;
        # Unpacked: one series without labels, one function, frame, stack and window.
        windows)
            printf '\1nspw\1\1\4shop\3cpu\2ns\1\0\1\1f\0\1\1\0\1\0\1\1\0\1\1\0\1' >"$corpus/seed"
            printf '0123456789abcdef\1\0\12\1\0\0\1' >>"$corpus/seed"
            ;;
        # A window of two keys, and an hour of one: where its parts are divided, keys and totals, then occurrences, gaps and extras.
        store_block)
            printf '\200\2\10\3\1' >"$corpus/window"
            printf '\200\1\10\5\1\1\1\5\1\0' >"$corpus/hour"
            ;;
        # Values of a group and its stacks; a service with its event, unit, period, labels and times.
        clickhouse_rows)
            printf '\1\4shop\1\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0' >"$corpus/group"
            printf '\4shop\3cpu\0\1\0\0\0\0\0\0\0\1\3pid\00212\0\0\0\0\12\0\0\0' >"$corpus/span"
            ;;
        # A partial success, and a status.
        otlp_reply)
            printf '\12\10\10\3\22\4full' >"$corpus/partial"
            printf '\10\3\22\7invalid' >"$corpus/status"
            ;;
        # Header, two names, a row and the end of the code, and what there is more of a function.
        go_functions)
            printf '\361\377\377\377\0\0\1\10\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >"$corpus/seed"
            printf '\110\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >>"$corpus/seed"
            printf '\122\0\0\0\0\0\0\0main.main\0\0\0\0\0\20\0\0\0\100\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >>"$corpus/seed"
            ;;
        # A program with a function in another, where there is a compiler.
        dwarf_inlines)
            if command -v cc >/dev/null; then
                printf 'static inline int twice(int n) { return n + n; }\nint main(int n, char **a) { return twice(n); }\n' |
                    cc -g -O2 -nostartfiles -Wl,-e,main -x c - -o "$corpus/seed"
            fi
            ;;
        otlp) { printf '\0'; cat ../fixtures/otlp/ebpf_profiler.pb; } >"$corpus/seed" ;;
        # A series of one label and one profile with an id.
        push) printf '\12\34\12\14\12\3env\22\5tests\22\14\12\5\12\3abc\22\3b8f' >"$corpus/seed" ;;
        grpc_web) printf '\0\0\0\0\0\200\0\0\0\51grpc-status: 3\r\ngrpc-message: no%%20name\r\n' >"$corpus/seed" ;;
        exposition)
            printf 'http_requests_total{a="b\\"}"} 1e3 7 # {c="d"} 1\nhttp_requests_total 5\n# EOF\n' >"$corpus/seed"
            ;;
        http_head) printf 'GET /0123456789abcdef HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nOrigin: null\r\n\r\n' >"$corpus/seed" ;;
        inspector)
            printf '\0HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{"Browser": "node.js"}' >"$corpus/version"
            printf '\1HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n[{"webSocketDebuggerUrl": "ws://127.0.0.1:9229/0-1-2-3"}]   ' >"$corpus/list"
            printf '\2{"id":1,"result":{"profile":{}}}\n{"method":"NodeWorker.attachedToWorker","params":{"sessionId":"1","workerInfo":{"title":"w"}}}\n{"id":2,"error":{"message":"no"}}' >"$corpus/lines"
            printf '\3\201\5hello\201\176\0\4text\210\0' >"$corpus/frames"
            ;;
    esac
    [[ -d $folder ]] || return 0
    local file name
    while IFS= read -r -d '' file; do
        name=$(basename "$file")
        case $name in
            # The end of a large file is not wanted, which gzip takes for a failure.
            *.gz) { gzip -dc "$file" || true; } | head -c 262144 >"$corpus/${name%.gz}" ;;
            README.md) ;;
            *) head -c 262144 "$file" >"$corpus/$name" ;;
        esac
    done < <(find "$folder" -maxdepth 2 -type f -size -256k -print0)
}

# libFuzzer knows the clock only, which says little on a machine that does other work too.
ticks=$(getconf CLK_TCK)
stop_after() { # PID SECONDS
    local stat fields
    while read -r stat 2>/dev/null <"/proc/$1/stat"; do
        # The name before may hold spaces. User and system time are the 12th and 13th behind it, the state is the first.
        read -r -a fields <<<"${stat##*) }"
        [[ ${fields[0]} != Z ]] || return 0
        (((fields[11] + fields[12]) / ticks < $2)) || kill -USR1 "$1" 2>/dev/null || true
        sleep 1
    done
}

# One that is interrupted leaves no target running.
fuzzer=
trap '[[ -z $fuzzer ]] || kill "$fuzzer" 2>/dev/null' EXIT

printf '%-16s %12s %8s %10s  %s\n' target executions seconds corpus finding
status=0
for target in "${targets[@]}"; do
    seeds "$target"
    log=$(mktemp)
    finding=none
    mkdir -p "artifacts/$target"
    "$binaries/$target" "corpus/$target" "-artifact_prefix=artifacts/$target/" \
        -max_total_time=$((20 * seconds)) -rss_limit_mb=2048 -timeout="${FUZZ_TIMEOUT:-10}" -max_len=262144 -print_final_stats=1 >"$log" 2>&1 &
    fuzzer=$!
    stop_after "$fuzzer" "$seconds"
    wait "$fuzzer" || finding=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    size=$(find "corpus/$target" -type f | wc -l)
    printf '%-16s %12s %8s %10s  %s\n' "$target" "${executions:-?}" "$seconds" "$size" "${finding:-see $log}"
    if [[ $finding == none ]]; then
        rm -f "$log"
    else
        status=1
        printf '%s\n' "$log" >&2
    fi
done
exit $status
