#!/usr/bin/env bash
# The worked example of docs/guide/container.md: the same program outside of a container and in one with a quarter of a CPU. Prints what
# each command prints; writes target/guide/container.html and its picture.
#
#   tools/guide-container.sh     as root, with dockerd (Debian's docker.io), after `cargo build --release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nodespy=${NODESPY:-$root/target/release/nodespy}
folder=$root/target/guide
mkdir -p "$folder"
# A unix socket's path is short.
engine=$(mktemp -d -u /tmp/guide-XXXX)
trap '"$root/tools/containers.sh" down "$engine"' EXIT
"$root/tools/containers.sh" up "$engine"
export DOCKER_HOST=unix://$engine/docker.sock

docker run -d --name web --network none --cpus 0.25 -e PORT=3000 nodespy-test /usr/bin/node /app/server.js >/dev/null
sleep 2
cd "$root"
run() { printf '\n$ nodespy %s\n' "$*"; "$nodespy" "$@" || true; }
run
run check -c web
run record -c web -e wall -d 8 -o target/guide/container.html
docker update --cpus 2 web >/dev/null
printf '\n== without the limit\n'
run record -c web -d 5 -o target/guide/container-free.html
"$root/tools/picture.sh" "$folder/container.html" "$folder/container.png" 1100 640
