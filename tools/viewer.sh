#!/usr/bin/env bash
# The viewer's own checks: formatting, lints, types, tests, and that the committed bundle is what
# its sources give.
#
#   tools/viewer.sh          check everything
#   tools/viewer.sh build    build the bundle anew
#   tools/viewer.sh format   format the sources, and fix the lints that have a safe fix
set -euo pipefail

readonly LINE_WIDTH=110

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bundles=("$root/crates/view/assets/viewer.js" "$root/crates/server/assets/fleet.js")
cd "$root/crates/view/ui"

if [[ ! -f node_modules/.package-lock.json || package-lock.json -nt node_modules/.package-lock.json ]]; then
    npm ci --silent --no-audit --no-fund >&2
    touch node_modules/.package-lock.json
fi

case ${1:-check} in
build)
    node build.mjs
    exit
    ;;
format)
    npm run --silent format
    exit
    ;;
esac

npm run --silent lint >&2
# The formatter leaves long strings as they are.
if LC_ALL=C.UTF-8 grep -rnE --include='*.ts' ".{$((LINE_WIDTH + 1)),}" src test >&2; then
    printf 'tools/viewer.sh: lines of more than %d columns\n' "$LINE_WIDTH" >&2
    exit 1
fi
npm run --silent check >&2
npm test --silent >&2
before=$(cat "${bundles[@]}" | sha256sum)
node build.mjs
if [[ $before != "$(cat "${bundles[@]}" | sha256sum)" ]]; then
    printf 'tools/viewer.sh: viewer.js or fleet.js is not what crates/view/ui gives; it was built anew, commit it\n' >&2
    exit 1
fi
