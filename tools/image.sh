#!/usr/bin/env bash
# A container image of nodespy, FROM scratch: the binary and the libraries it is linked against, as they are on this machine.
#
#   tools/image.sh [BINARY [TAG]]    of target/shipped/nodespy (`make dist`), tagged nodespy:VERSION, unless told
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
binary=${1:-$root/target/shipped/nodespy}
tag=${2:-nodespy:$version}
[[ -x $binary ]] || { printf 'tools/image.sh: there is no %s; type: make dist\n' "$binary" >&2; exit 1; }

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
mkdir -p "$tree"/{usr/bin,tmp,var/lib/nodespy,etc}
chmod 1777 "$tree/tmp"
install -m 755 "$binary" "$tree/usr/bin/nodespy"
for library in $(ldd "$binary" | grep -o '/[^ )]*' | sort -u); do
    install -D -m 755 "$library" "$tree$library"
done
# The classic builder: it needs no plugin, and there is no step to cache.
DOCKER_BUILDKIT=0 docker build --quiet --tag "$tag" --file "$root/Dockerfile" "$tree"
