#!/usr/bin/env bash
# The demo that docs/guide/deploy.md begins with: two versions of a service, one of which is slower, and what agent and server say of
# it. With a picture of the page: target/guide/deploy.png.
#
#   tools/guide-deploy.sh     as root, after `cargo build --release`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$root/target/guide"
PICTURE=$root/target/guide/deploy.png "$root/tools/demo-continuous.sh" </dev/null
