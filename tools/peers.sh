#!/usr/bin/env bash
# Installs the tools nodespy is compared with into target/peers, by name and once: inferno and samply
# with cargo, 0x and flamebearer 1 (the one that draws logs of V8) with npm. perf comes with tools/setup.sh.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
peers="$root/target/peers"
mkdir -p "$peers"

say() { printf 'tools/peers.sh: %s\n' "$*" >&2; }

crate() { # CRATE VERSION PROGRAM
    [[ -x $peers/bin/$3 ]] && return
    say "cargo install $1@$2"
    CARGO_TARGET_DIR="$peers/build" cargo install --quiet --root "$peers" --version "$2" "$1" >&2
}

crate inferno 0.12.8 inferno-flamegraph
[[ ${PEERS:-} == few ]] || crate samply 0.13.1 samply

if [[ ! -d $peers/node_modules/0x || ! -d $peers/node_modules/flamebearer ]]; then
    say "npm install 0x@6.0.0 flamebearer@1.1.3"
    npm install --prefix "$peers" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
        0x@6.0.0 flamebearer@1.1.3 >&2
fi
