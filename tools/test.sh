#!/usr/bin/env bash
# Runs one tier of the tests with plain cargo, every binary to its end, and says at last what was
# skipped and why.
#
#   tools/test.sh quick     everything but the two below; live tests on three Node versions
#   tools/test.sh matrix    live tests of every version, engine, container and delay (`matrix::`), the store in ClickHouse,
#                           and one round of each trouble of `make chaos`
#   tools/test.sh corpus    foreign files of the folder NODESPY_CORPUS
#
# Live tests run one after the other: the list of the slowest says where the time of a run went.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
cargo=${CARGO:-cargo}
skipped=target/tmp/skipped
seconds=target/tmp/seconds
rm -f "$skipped" "$seconds"
status=0
# The same random cases on every machine: a commit that passed here passes there. Plain
# `cargo test` draws new ones each time.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

# A failing binary does not keep the others from running. Always the whole workspace, of which targets are chosen: a single package would
# have dependencies with other features, all built once more.
run() { "$cargo" test --no-fail-fast --workspace "$@" || status=$?; }

case "${1:-}" in
    quick)
        run --all-targets -- --skip matrix::
        run --doc --quiet
        ;;
    matrix)
        run --test live -- matrix::
        # The store in ClickHouse.
        run --test it -- matrix::
        run --test chaos
        run --bin xtask -- matrix::
        ;;
    corpus)
        if [[ ! -d ${NODESPY_CORPUS:-} ]]; then
            printf 'tools/test.sh: the corpus suite is skipped: NODESPY_CORPUS names no folder\n'
            exit 0
        fi
        NODESPY_CORPUS=$(cd "$NODESPY_CORPUS" && pwd)
        export NODESPY_CORPUS
        run --test corpus
        ;;
    *)
        printf 'usage: tools/test.sh quick | matrix | corpus\n' >&2
        exit 2
        ;;
esac

if [[ -s $skipped ]]; then
    printf '\nSkipped tests, by what they lack:\n'
    cut -f 1 "$skipped" | sort | uniq -c | sort -rn | sed 's/^/  /'
fi
if [[ -s $seconds ]]; then
    awk '{ sum += $1 } END { printf "\n%d live tests in %.0f s; the slowest:\n", NR, sum }' "$seconds"
    sort -rn "$seconds" | sed -n '1,10s/^/  /p'
fi
exit "$status"
