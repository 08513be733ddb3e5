#!/usr/bin/env bash
# Builds what is shipped: the stripped binary in an archive, a Debian package and npm packages, whose bytes depend on the commit
# and the compiler only, not on the folder, the time or the user.
#
#   tools/dist.sh          into target/dist, with their checksums; prints the sizes
#   tools/dist.sh check    the same twice, from clones of HEAD in two folders, and compares the bytes
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build() {
    cd "$root"
    # What the archive says about time.
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
    export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
    local registry=${CARGO_HOME:-$HOME/.cargo} toolchain
    toolchain=$(rustc --print sysroot)
    # Where the sources lie is in messages of panics; zstd is C and has its own option for that.
    export RUSTFLAGS="--remap-path-prefix=$root=/nodespy --remap-path-prefix=$registry=/cargo --remap-path-prefix=$toolchain=/rust"
    export CFLAGS="-ffile-prefix-map=$root=/nodespy -ffile-prefix-map=$registry=/cargo"
    export CARGO_INCREMENTAL=0 CARGO_PROFILE_DIST_STRIP=symbols
    NODESPY_COMMIT=$(git rev-parse --short=12 HEAD)
    export NODESPY_COMMIT
    # A folder of its own: other flags would throw away what everyday builds keep.
    cargo build --quiet --locked --profile dist --bin nodespy --target-dir target/shipped

    local version name folder archive
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
    name=nodespy-$version-x86_64-linux
    folder=target/dist/$name
    archive=target/dist/$name.tar.gz
    rm -rf "$folder"
    mkdir -p "$folder"
    install -m 755 target/shipped/dist/nodespy "$folder/nodespy"
    install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$folder"
    "$folder/nodespy" man "$folder/man/man1"
    mkdir "$folder/completions"
    local shell
    for shell in bash zsh fish; do
        "$folder/nodespy" completions "$shell" >"$folder/completions/nodespy.$shell"
    done
    tar --create --directory target/dist --format=ustar --sort=name --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$name" | gzip -9 --no-name >"$archive"
    local binary_bytes packages=("$name.tar.gz")
    binary_bytes=$(stat -c %s "$folder/nodespy")
    if command -v dpkg-deb >/dev/null; then
        packages+=("nodespy_${version}_amd64.deb")
        tools/deb.sh "$folder" "target/dist/nodespy_${version}_amd64.deb"
    fi
    if command -v npm >/dev/null; then
        packages+=("nodespy-$version.tgz" "nodespy-linux-x64-$version.tgz")
        tools/npm.sh "$folder/nodespy" target/dist
    fi
    printf 'binary: %s bytes, linked against %s\n' "$binary_bytes" \
        "$(objdump -T "$folder/nodespy" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)"
    rm -rf "$folder"
    (cd target/dist && stat -c '%s bytes  %n' "${packages[@]}" && sha256sum "${packages[@]}" | tee SHA256SUMS)
}

check() {
    local work first second
    work=$(mktemp -d)
    # shellcheck disable=SC2064  # as it is now
    trap "rm -rf '$work'" EXIT
    # Of different length, because a path may be padded away.
    first=$work/a second=$work/another/folder/with-a-longer-name
    git clone --quiet "$root" "$first"
    git clone --quiet "$root" "$second"
    (umask 022 && "$first/tools/dist.sh")
    (umask 077 && "$second/tools/dist.sh")
    if cmp "$first"/target/dist/SHA256SUMS "$second"/target/dist/SHA256SUMS; then
        printf 'tools/dist.sh: two builds, the same bytes\n'
    else
        cmp -l "$first"/target/shipped/dist/nodespy "$second"/target/shipped/dist/nodespy | wc -l |
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
