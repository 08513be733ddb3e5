#!/usr/bin/env bash
# The eBPF programs, built from their sources: crates/capture/bpf/walk.bpf.c into three objects and one_in.bpf.c into one. They
# are committed, so that nobody needs clang to build nodespy.
#
#   tools/bpf.sh build    writes them
#   tools/bpf.sh          builds them elsewhere and compares: the committed objects are those of the source
#
# The bytes depend on the compiler: clang 14, Debian 12's.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source=$root/crates/capture/bpf
version=14

if ! command -v clang >/dev/null || ! clang --version | grep -q "clang version $version\." || [[ ! -e /usr/include/bpf/bpf_helpers.h ]]; then
    printf 'tools/bpf.sh: needs clang %s, llvm and libbpf-dev: apt-get install clang llvm libbpf-dev\n' "$version" >&2
    exit 1
fi

build() { # FOLDER
    local flags=(-O2 -g -target bpf -D__TARGET_ARCH_x86 -I/usr/include/x86_64-linux-gnu -Wall -Werror -fdebug-prefix-map="$source"=.)
    (
        cd "$source"
        clang "${flags[@]}" -c walk.bpf.c -o "$1/walk.bpf.o"
        clang "${flags[@]}" -DNO_BPF_LOOP -c walk.bpf.c -o "$1/walk-5.15.bpf.o"
        clang "${flags[@]}" -DNO_BPF_LOOP -DNO_TASK_REGISTERS -c walk.bpf.c -o "$1/walk-5.8.bpf.o"
        clang "${flags[@]}" -c one_in.bpf.c -o "$1/one_in.bpf.o"
    )
    llvm-strip -g "$1"/*.bpf.o
}

if [[ ${1:-} == build ]]; then
    build "$source"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build "$folder"
for object in walk.bpf.o walk-5.15.bpf.o walk-5.8.bpf.o one_in.bpf.o; do
    if ! cmp -s "$folder/$object" "$source/$object"; then
        printf 'tools/bpf.sh: %s is not what its source gives: tools/bpf.sh build\n' "$object" >&2
        exit 1
    fi
done
