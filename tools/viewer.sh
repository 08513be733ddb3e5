#!/usr/bin/env bash
# The viewer's own checks: types, tests, and that the committed bundle is what its sources give.
#
#   tools/viewer.sh          check everything
#   tools/viewer.sh build    build the bundle anew
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bundle=$root/crates/view/assets/viewer.js
cd "$root/crates/view/ui"

if [[ ! -f node_modules/.package-lock.json || package-lock.json -nt node_modules/.package-lock.json ]]; then
    npm ci --silent --no-audit --no-fund >&2
    touch node_modules/.package-lock.json
fi

if [[ ${1:-check} == build ]]; then
    node build.mjs
    exit
fi
npx --no-install tsc --noEmit
npm test --silent >&2
before=$(sha256sum <"$bundle")
node build.mjs
if [[ $before != "$(sha256sum <"$bundle")" ]]; then
    printf 'tools/viewer.sh: crates/view/assets/viewer.js is not what crates/view/ui gives; it was built anew, commit it\n' >&2
    exit 1
fi
