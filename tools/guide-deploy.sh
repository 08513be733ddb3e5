#!/usr/bin/env bash
# The worked example of docs/guide/deploy.md: two versions of a service, one of which is slower, and what agent and server say of it.
# That is the demo, with a picture of the page: target/guide/deploy.png.
#
#   tools/guide-deploy.sh     as root, after `cargo build --release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$root/target/guide"
PICTURE=$root/target/guide/deploy.png "$root/tools/demo-continuous.sh" </dev/null
