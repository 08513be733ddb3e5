#!/usr/bin/env bash
# Builds what is shipped: the stripped binary in an archive, a Debian package and npm packages, whose bytes depend on the commit
# and the compiler only, not on the folder, the time or the user. Static where Rust's musl target and musl-gcc are installed.
#
#   tools/dist.sh          into target/dist, with their checksums; prints the sizes
#   tools/dist.sh check    the same twice, from clones of HEAD in two folders, and compares the bytes
set -euo pipefail

readonly MAX_BYTES=12000000

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build() {
    cd "$root"
    tools/pack.sh --check-tools
    # What archives say about time.
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
    export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
    local registry=${CARGO_HOME:-$HOME/.cargo} toolchain size target=x86_64-unknown-linux-gnu
    toolchain=$(rustc --print sysroot)
    if [[ -d $toolchain/lib/rustlib/x86_64-unknown-linux-musl ]] && command -v musl-gcc >/dev/null; then
        target=x86_64-unknown-linux-musl
    fi
    printf 'tools/dist.sh: building for %s\n' "$target" >&2
    # Where the sources lie is in messages of panics; SQLite, ring and zstd are C and have their own option for that.
    export RUSTFLAGS="--remap-path-prefix=$root=/nodespy --remap-path-prefix=$registry=/cargo --remap-path-prefix=$toolchain=/rust"
    # A registry's folder has a long name, which would be there for each file.
    cargo fetch --quiet --locked --target "$target"
    local sources
    for sources in "$registry"/registry/src/*/; do
        RUSTFLAGS+=" --remap-path-prefix=${sources%/}=/cargo"
    done
    # Said once more: where a profile has settings for single packages, cargo strips debug information only.
    RUSTFLAGS+=" -Cstrip=symbols"
    # Equal functions once. lld can do that, which rustc links with for glibc; for musl it is GNU ld, which can't.
    [[ $target == *-musl ]] || RUSTFLAGS+=" -Clink-arg=-Wl,--icf=all"
    CFLAGS="-ffile-prefix-map=$root=/nodespy -ffile-prefix-map=$registry=/cargo"
    # No panic unwinds through C. And the store packs with the first levels of zstd, which are two of its nine strategies.
    CFLAGS+=" -fno-asynchronous-unwind-tables -fno-unwind-tables"
    local strategy
    for strategy in GREEDY LAZY LAZY2 BTLAZY2 BTOPT BTULTRA; do
        CFLAGS+=" -DZSTD_EXCLUDE_${strategy}_BLOCK_COMPRESSOR"
    done
    # Of its two ways each to decode literals and sequences, the smaller one: it takes no longer.
    CFLAGS+=" -DHUF_FORCE_DECOMPRESS_X1 -DZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT"
    export CFLAGS
    export CARGO_INCREMENTAL=0
    NODESPY_COMMIT=$(git rev-parse --short=12 HEAD)
    export NODESPY_COMMIT
    # A folder of its own: other flags would throw away what everyday builds keep.
    cargo build --quiet --locked --profile dist --bin nodespy --target "$target" --target-dir target/shipped
    install -m 755 "target/shipped/$target/dist/nodespy" target/shipped/nodespy
    tools/pack.sh target/shipped/nodespy target/dist
    size=$(stat -c %s target/shipped/nodespy)
    # A static one has musl in it.
    if [[ $target == *-gnu ]] && ((size > MAX_BYTES)); then
        printf 'tools/dist.sh: the binary has %d bytes, more than %d: docs/decisions/0032-a-small-binary.md\n' "$size" "$MAX_BYTES" >&2
        return 1
    fi
    tools/packed.sh target/dist
}

check() {
    local work first second
    work=$(mktemp -d)
    # shellcheck disable=SC2064  # as it is now
    trap "rm -rf '$work'" EXIT
    # Of different length, because a path may be padded away.
    first=$work/a second=$work/another/folder/with-a-longer-name
    # The modes of a clone follow from the umask as well.
    (umask 022 && git clone --quiet "$root" "$first" && "$first/tools/dist.sh")
    (umask 077 && git clone --quiet "$root" "$second" && "$second/tools/dist.sh")
    if cmp "$first"/target/dist/SHA256SUMS "$second"/target/dist/SHA256SUMS; then
        printf 'tools/dist.sh: two builds, the same bytes\n'
    else
        cmp -l "$first"/target/shipped/nodespy "$second"/target/shipped/nodespy | wc -l |
            xargs printf 'tools/dist.sh: the builds differ; bytes of the binary that do: %s\n' >&2
        return 1
    fi
}

case ${1:-} in
    check) check ;;
    '') build ;;
    *)
        sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac
