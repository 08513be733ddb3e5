#!/usr/bin/env bash
# Licences, sources and bans of all dependencies by cargo-deny, which is installed into target/tools.
# Advisories need a database that is no package: they are checked where it can be fetched, and elsewhere a line of its own
# says that they were not.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
deny=$(command -v cargo-deny || true)
if [[ -z $deny ]]; then
    deny=$root/target/tools/bin/cargo-deny
    if [[ ! -x $deny ]]; then
        printf 'tools/deny.sh: cargo install cargo-deny\n' >&2
        # Unoptimized: it runs for a second.
        cargo install --quiet --debug --locked --root "$root/target/tools" cargo-deny
    fi
fi
"$deny" --all-features check bans licenses sources
if "$deny" --all-features fetch db >/dev/null 2>&1; then
    "$deny" --all-features check advisories
else
    printf '\n*** NOT CHECKED: security advisories, unmaintained and yanked crates: their database cannot be fetched here ***\n\n' >&2
fi
