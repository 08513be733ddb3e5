#!/usr/bin/env bash
# Installs the pinned dependencies of workloads/express beside it, once.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
app="$root/workloads/express"
stamp="$app/node_modules/.installed"

mkdir -p "$root/target"
exec 9>"$root/target/.lock-express"
flock 9
if [[ $stamp -nt $app/package-lock.json ]]; then
    exit 0
fi
printf 'tools/express.sh: npm ci in workloads/express\n' >&2
npm ci --prefix "$app" --no-audit --no-fund --ignore-scripts --loglevel=error >&2
touch "$stamp"
