#!/usr/bin/env bash
# Prints a Python with pinned packages that tests need, made once.
#
#   tools/python.sh               what OTLP profiles are decoded with, in target/python
#   tools/python.sh pyroscope     Pyroscope's own SDK (5 MB), in target/python-pyroscope
#   tools/python.sh clickhouse    ClickHouse's engine (170 MB, with its packages 520), in target/python-clickhouse
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case "${1:-}" in
    '') folder="$root/target/python" packages=(opentelemetry-proto==1.45.2) ;;
    pyroscope) folder="$root/target/python-pyroscope" packages=(pyroscope-io==1.4.0) ;;
    clickhouse) folder="$root/target/python-clickhouse" packages=(chdb-core-lite==26.5.0) ;;
    *)
        printf 'usage: tools/python.sh [pyroscope|clickhouse]\n' >&2
        exit 2
        ;;
esac

mkdir -p "$root/target"
exec 9>"$root/target/.lock-${folder##*/}"
flock 9
if [[ ! -e $folder/.installed ]]; then
    printf 'tools/python.sh: pip install %s\n' "${packages[*]}" >&2
    python3 -m venv "$folder" >&2
    "$folder/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" >&2
    touch "$folder/.installed"
fi
printf '%s\n' "$folder/bin/python"
