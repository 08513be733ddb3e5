#!/usr/bin/env bash
# Runs the worked examples of docs/guide again and puts their pictures there. What they print is in target/guide/NAME.out: most pages
# quote it, so compare.
#
#   tools/guides.sh [NAME…]     await container cpu deploy files latency pm2 regression remote, as root, after `cargo build --release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/target/guide
mkdir -p "$folder"
# A picture that is not made again stays as it is.
rm -f "$folder"/*.png
(($#)) || set -- await container cpu deploy files latency pm2 regression remote
for name in "$@"; do
    printf 'tools/guides.sh: %s\n' "$name" >&2
    "$root/tools/guide-$name.sh" >"$folder/$name.out" 2>&1 || { cat "$folder/$name.out" >&2; exit 1; }
done
shopt -s nullglob
for picture in "$folder"/*.png; do
    name=$(basename "$picture")
    case $name in
        flame.png) cp "$picture" "$root/docs/" ;;
        deploy.png) ;; # to look at: no page shows it
        *) cp "$picture" "$root/docs/guide/" ;;
    esac
done
