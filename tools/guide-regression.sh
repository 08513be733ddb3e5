#!/usr/bin/env bash
# The worked example of docs/guide/regressions.md: an express app, a pull request that makes it slower, and what
# `nodespy ci` says of it. Writes target/guide/diff.md, diff.html and, where there is chromium, the picture of the page.
#
#   tools/guide-regression.sh [REQUESTS]     after `cargo build --release`; 1000 requests a run by default
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
requests=${1:-1000}
folder=$root/target/guide
node=$("$root/tools/node.sh" 24)
export PORT=${PORT:-38119}
url=http://127.0.0.1:$PORT/json

[[ -d $root/workloads/express/node_modules ]] || npm ci --prefix "$root/workloads/express" --ignore-scripts --no-audit --no-fund >&2
mkdir -p "$folder"/{main,pull}
for branch in main pull; do
    cp "$root/workloads/express/app.js" "$folder/$branch/app.js"
    ln -sfn "$root/workloads/express/node_modules" "$folder/$branch/node_modules"
done
# What the pull request changes: every group is cloned once more, "to be safe".
sed -i 's/_.sortBy(items, /_.sortBy(_.cloneDeep(items), /' "$folder/pull/app.js"
diff -u "$folder/main/app.js" "$folder/pull/app.js" || true

"$nodespy" ci --save "$folder/base" --url "$url" --requests "$requests" -- "$node" "$folder/main/app.js"
code=0
"$nodespy" ci --base "$folder/base" --url "$url" --requests "$requests" -o "$folder/diff.html" -o "$folder/diff.md" \
    -- "$node" "$folder/pull/app.js" || code=$?
printf 'exit code %s\n' "$code"
[[ $code == 10 ]] || { printf 'the regression was not found\n' >&2; exit 1; }

"$root/tools/picture.sh" "$folder/diff.html#v=top&cmp=base&chg=1" "$folder/regression.png" 1100 560
