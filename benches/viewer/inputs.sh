#!/usr/bin/env bash
# Makes what the comparison of viewers needs, once: a V8 profile of benches/peers/bundler, the other
# viewers from npm, and inferno (tools/peers.sh).
#
#   benches/viewer/inputs.sh FOLDER
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?"usage: benches/viewer/inputs.sh FOLDER"}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
bundler="$here/../peers/bundler"

say() { printf 'benches/viewer/inputs.sh: %s\n' "$*" >&2; }

install() { # FOLDER
    [[ -d $1/node_modules ]] && return
    say "npm ci in $1"
    npm ci --prefix "$1" --no-audit --no-fund --ignore-scripts --loglevel=error >&2
}

install "$here"
if [[ ! -s $folder/bld.cpuprofile ]]; then
    install "$bundler"
    say "bld.cpuprofile: 60 s, a sample each 50 us"
    node --cpu-prof --cpu-prof-interval 50 --cpu-prof-dir "$folder" --cpu-prof-name cpuprofile.part \
        "$bundler/bundler.js" 60 >/dev/null
    mv "$folder/cpuprofile.part" "$folder/bld.cpuprofile"
fi
