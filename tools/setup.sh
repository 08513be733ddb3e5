#!/usr/bin/env bash
# Makes a machine ready for the tests and `make demo`: Debian packages by name, Node versions, the
# packages of workloads, the image for containers. Says what it does; does nothing twice.
#
#   tools/setup.sh            what `make test` needs
#   tools/setup.sh all        what `make test-all` needs beside that
#   tools/setup.sh demo       only what `make demo` needs
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
purpose=${1:-test}

say() { printf 'tools/setup.sh: %s\n' "$*" >&2; }

missing=()
need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

need cc gcc
need node nodejs
need npm npm
need flock util-linux
if [[ $purpose != demo ]]; then
    need perf linux-perf     # the comparison with perf
    need strip binutils      # a Node without symbols
    need tmux tmux           # a terminal for `nodespy top`
    need chromium chromium   # a browser for the viewer and flame graphs
    need chromedriver chromium-driver
    need setpriv util-linux
    need systemd-analyze systemd # reads the unit of the agent
    need curl curl
fi
if [[ $purpose == all ]]; then
    need dockerd docker.io   # real containers, with an engine of the tests' own
    need docker-compose docker-compose # deploy/compose.yaml
    need busybox busybox-static
    need podman podman       # a second engine, on the runc that comes with the first
fi

if ((${#missing[@]})); then
    if ! command -v apt-get >/dev/null; then
        say "missing: ${missing[*]} (names of Debian packages); install them and run this again"
        exit 1
    fi
    if ((EUID != 0)); then
        say "missing: ${missing[*]}; type: sudo apt-get install ${missing[*]}"
        exit 1
    fi
    say "apt-get install ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # Another apt may hold the lock on a machine that has just started: wait for it.
    apt-get -qq -o DPkg::Lock::Timeout=300 update >&2
    apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" >&2
fi

if ! command -v cargo >/dev/null; then
    say "cargo is missing: install a Rust toolchain of at least the rust-version in Cargo.toml"
    exit 1
fi

"$root/tools/packages.sh" express
"$root/tools/packages.sh" routes
"$root/tools/packages.sh" traces
"$root/tools/packages.sh" typescript
if [[ $purpose != demo ]]; then
    "$root/tools/packages.sh" mcp
    "$root/tools/packages.sh" parca
    "$root/tools/packages.sh" pyroscope
    # What OTLP profiles are decoded with; a test does without where pip can't install it.
    "$root/tools/python.sh" >/dev/null || say "no Python with opentelemetry-proto"
    "$root/tools/python.sh" pyroscope >/dev/null || say "no Python with pyroscope-io"
    # axe, which the tests of the viewer ask about accessibility.
    if [[ ! -e $root/crates/view/ui/node_modules/axe-core ]]; then
        say "npm ci in crates/view/ui"
        npm ci --prefix "$root/crates/view/ui" --no-audit --no-fund --loglevel=error >&2
    fi
    for version in 16 20 26; do # those of crates/nodespy/tests/live/versions.rs
        "$root/tools/node.sh" "$version" >/dev/null
    done
fi
if [[ $purpose == all ]]; then
    "$root/tools/node.sh" --all >/dev/null
    "$root/tools/node.sh" --old >/dev/null
    "$root/tools/containers.sh" image
    # ClickHouse's engine, from PyPI.
    "$root/tools/python.sh" clickhouse >/dev/null || say "no Python with chdb-core-lite"
    for runtime in bun deno debian; do
        "$root/tools/runtime.sh" "$runtime" >/dev/null
    done
fi
