#!/usr/bin/env bash
# The oldest glibc that a binary runs with, such as 2.34, or "static" for one that needs no C library.
#
#   tools/libc.sh BINARY
set -euo pipefail

if (($# != 1)); then
    sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
headers=$(readelf --program-headers "$1")
if [[ $headers != *INTERP* ]]; then
    echo static
    exit
fi
readelf --version-info --wide "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1 | sed 's/GLIBC_//'
