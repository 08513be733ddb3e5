#!/usr/bin/env bash
# Installs the pinned pm2 of workloads/pm2 beside it, once.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
app="$root/workloads/pm2"
stamp="$app/node_modules/.installed"

mkdir -p "$root/target"
exec 9>"$root/target/.lock-pm2"
flock 9
if [[ $stamp -nt $app/package-lock.json ]]; then
    exit 0
fi
printf 'tools/pm2.sh: npm ci in workloads/pm2\n' >&2
npm ci --prefix "$app" --no-audit --no-fund --ignore-scripts --loglevel=error >&2
touch "$stamp"
