#!/usr/bin/env bash
# Packs a binary of nodespy: an archive with man pages, completions and licences, a Debian package, npm packages, their checksums.
#
#   tools/pack.sh BINARY FOLDER              WITHOUT='deb npm' leaves these out; LEVEL=1 compresses less, for tests
#   tools/pack.sh --check-tools              only whether what this needs is installed
set -euo pipefail
# Packages hold the modes of their folders.
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

is_wanted() { [[ " ${WITHOUT:-} " != *" $1 "* ]]; }

check_tools() {
    local -A programs=([archive]='tar gzip readelf sha256sum' [deb]=dpkg-deb [npm]=npm)
    local kind program status=0
    for kind in archive deb npm; do
        is_wanted "$kind" || continue
        for program in ${programs[$kind]}; do
            command -v "$program" >/dev/null && continue
            printf 'tools/pack.sh: %s is missing, needed for: %s' "$program" "$kind" >&2
            [[ $kind == archive ]] || printf "; to do without: WITHOUT='%s'" "$kind" >&2
            printf '\n' >&2
            status=1
        done
    done
    return "$status"
}

pack() { # BINARY FOLDER
    local binary=$1 target=$2 version name folder shell packages libc
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
    name=nodespy-$version-x86_64-linux
    folder=$target/$name
    rm -rf "$folder"
    mkdir -p "$folder/completions"
    install -m 755 "$binary" "$folder/nodespy"
    install -m 644 "$root"/{README.md,CHANGELOG.md,LICENSE-APACHE,LICENSE-MIT,THIRD-PARTY.md} "$folder"
    "$folder/nodespy" man "$folder/man/man1"
    for shell in bash zsh fish; do
        "$folder/nodespy" completions "$shell" >"$folder/completions/nodespy.$shell"
    done
    tar --create --directory "$target" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX --mtime="@${SOURCE_DATE_EPOCH:-0}" "$name" | gzip "-${LEVEL:-9}" --no-name >"$target/$name.tar.gz"
    packages=("$name.tar.gz")
    if is_wanted deb; then
        packages+=("nodespy_${version}_amd64.deb")
        "$root/tools/deb.sh" "$folder" "$target/nodespy_${version}_amd64.deb"
    fi
    if is_wanted npm; then
        packages+=("nodespy-$version.tgz" "nodespy-linux-x64-$version.tgz")
        "$root/tools/npm.sh" "$folder/nodespy" "$target"
    fi
    libc=$("$root/tools/libc.sh" "$folder/nodespy")
    case $libc in
        static) libc='linked statically, no C library needed' ;;
        *) libc="linked against glibc, $libc or later" ;;
    esac
    printf 'binary: %s bytes, %s\n' "$(stat -c %s "$folder/nodespy")" "$libc"
    rm -rf "$folder"
    cd "$target"
    stat -c '%s bytes  %n' "${packages[@]}"
    sha256sum "${packages[@]}" | tee SHA256SUMS
}

case $#:${1:-} in
    1:--check-tools) check_tools ;;
    2:*)
        check_tools
        target=$(mkdir -p "$2" && realpath "$2")
        binary=$(realpath "$1")
        cd "$root"
        pack "$binary" "$target"
        ;;
    *)
        sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac
