#!/usr/bin/env bash
# Prints a Python with the pinned packages that tests decode with, made once in target/python.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder="$root/target/python"
packages=(opentelemetry-proto==1.45.2)

mkdir -p "$root/target"
exec 9>"$root/target/.lock-python"
flock 9
if [[ ! -e $folder/.installed ]]; then
    printf 'tools/python.sh: pip install %s\n' "${packages[*]}" >&2
    python3 -m venv "$folder" >&2
    "$folder/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" >&2
    touch "$folder/.installed"
fi
printf '%s\n' "$folder/bin/python"
