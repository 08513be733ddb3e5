#!/usr/bin/env bash
# A picture of a page that nodespy wrote or serves, for the guides. Without Chromium there is none, and that is said.
#
#   tools/picture.sh PAGE.html[#STATE]|URL FILE.png [WIDTH HEIGHT]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if (($# < 2)); then
    sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
page=$1
[[ $page == http://* ]] || page=file://$page
for browser in chromium chromium-browser google-chrome; do
    command -v "$browser" >/dev/null || continue
    "$("$root/tools/node.sh" 24)" "$root/tools/screenshot.mjs" "$browser" "$page" "$2" "${@:3}"
    printf 'wrote %s\n' "$2"
    exit
done
printf 'tools/picture.sh: no Chromium, so no picture of %s\n' "$1" >&2
