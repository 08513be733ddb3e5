#!/usr/bin/env bash
# Installs the pinned packages of a workload beside it, once.
#
#   tools/packages.sh express|mcp|parca|pm2|pyroscope|routes|traces|typescript
set -euo pipefail

name=${1:?"usage: tools/packages.sh express|mcp|parca|pm2|pyroscope|routes|traces|typescript"}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
app="$root/workloads/$name"
stamp="$app/node_modules/.installed"

mkdir -p "$root/target"
exec 9>"$root/target/.lock-$name"
flock 9
if [[ $stamp -nt $app/package-lock.json ]]; then
    exit 0
fi
printf 'tools/packages.sh: npm ci in workloads/%s\n' "$name" >&2
npm ci --prefix "$app" --no-audit --no-fund --ignore-scripts --loglevel=error >&2
touch "$stamp"
