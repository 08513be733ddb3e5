#!/usr/bin/env bash
# Opens what nodespy exports with the programs the formats are for, and compares what they show with
# nodespy's own report: `go tool pprof`, speedscope and Chromium's DevTools (the last two headless).
#
#   tools/openers.sh [FILE…]      recordings to export; by default some of fixtures/
#
# Installs what is missing: Debian packages by name, speedscope with npm into target/openers.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here="$root/target/openers"
fixtures="$root/fixtures"
mkdir -p "$here"

say() { printf 'tools/openers.sh: %s\n' "$*" >&2; }

missing=()
command -v go >/dev/null || missing+=(golang-go)
command -v chromium >/dev/null || missing+=(chromium)
if ((${#missing[@]})); then
    say "apt-get install ${missing[*]}"
    apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2
fi
if [[ ! -d $here/node_modules/speedscope ]]; then
    say "npm install speedscope@1.25.0"
    npm install --prefix "$here" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
        speedscope@1.25.0 >&2
fi
[[ -n ${NODESPY:-} ]] || cargo build --release --quiet --bin nodespy --manifest-path "$root/Cargo.toml"

if (($#)); then
    files=("$@")
else
    files=("$fixtures"/cpuprofile/node{20,26}.cpuprofile "$fixtures"/perf_data/node26.perf.data
        "$fixtures"/v8_log/node26-v8.log.gz "$fixtures"/chrome_trace/node20-workers.json.gz
        "$fixtures"/heapprofile/node20.heapprofile "$fixtures"/folded/py-spy.txt)
fi
# The browser is spoken to through a WebSocket, which Node has since version 22.
exec "$("$root/tools/node.sh" 24)" "$root/tools/openers/main.mjs" \
    "${NODESPY:-$root/target/release/nodespy}" "$here" "${files[@]}"
