#!/usr/bin/env bash
# Packs nodespy for npm: a script, and the binary in a package for its platform. Nothing is published.
#
#   tools/npm.sh BINARY FOLDER    writes nodespy-VERSION.tgz and nodespy-linux-x64-VERSION.tgz into FOLDER
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if (($# != 2)); then
    sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
binary=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/npm/nodespy" "$root/npm/nodespy-linux-x64" "$work"
install -D -m 755 "$binary" "$work/nodespy-linux-x64/bin/nodespy"
cp "$root/THIRD-PARTY.md" "$work/nodespy-linux-x64"
for package in nodespy nodespy-linux-x64; do
    cp "$root/LICENSE-APACHE" "$root/LICENSE-MIT" "$work/$package"
    sed -i "s/\"0\.0\.0\"/\"$version\"/" "$work/$package/package.json"
    # npm keeps modes, and those of a checkout depend on who made it.
    chmod -R u=rwX,go=rX "$work/$package"
    (cd "$work/$package" && npm pack --silent --pack-destination "$folder" >/dev/null)
done
