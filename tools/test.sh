#!/usr/bin/env bash
# Runs one tier of the tests with plain cargo, every binary to its end, and says at last what was
# skipped and why.
#
#   tools/test.sh quick     everything but the two below; live tests on three Node versions
#   tools/test.sh matrix    live tests of every version, engine, container and delay (`matrix::`), the store in ClickHouse,
#                           and one round of each trouble of `make chaos`
#   tools/test.sh corpus    foreign files of the folder NODESPY_CORPUS
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
cargo=${CARGO:-cargo}
skipped=target/tmp/skipped
rm -f "$skipped"
status=0
# The same random cases on every machine: a commit that passed here passes there. Plain
# `cargo test` draws new ones each time.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

# A failing binary does not keep the others from running.
run() { "$cargo" test --no-fail-fast "$@" || status=$?; }

case "${1:-}" in
    quick)
        run --workspace --all-targets -- --skip matrix::
        run --workspace --doc --quiet
        ;;
    matrix)
        run -p nodespy --test live -- matrix::
        # The store in ClickHouse.
        run -p nodespy-store -p nodespy --test it -- matrix::
        run -p nodespy --test chaos
        run -p xtask -- matrix::
        ;;
    corpus)
        if [[ ! -d ${NODESPY_CORPUS:-} ]]; then
            printf 'tools/test.sh: the corpus suite is skipped: NODESPY_CORPUS names no folder\n'
            exit 0
        fi
        NODESPY_CORPUS=$(cd "$NODESPY_CORPUS" && pwd)
        export NODESPY_CORPUS
        run -p nodespy-formats -p nodespy --test corpus
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
exit "$status"
