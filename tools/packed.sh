#!/usr/bin/env bash
# Checks what tools/pack.sh has made: every file that belongs into the packages is there, each installs into an empty root, and the
# installed binary runs.
#
#   tools/packed.sh FOLDER
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if (($# != 1)); then
    sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
from=$(realpath "$1")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
name=nodespy-$version-x86_64-linux
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    printf 'tools/packed.sh: %s\n' "$*" >&2
    exit 1
}

has() { # FOLDER FILE …
    local folder=$1 file
    shift
    for file; do
        [[ -s $folder/$file ]] || fail "$folder has no $file"
    done
}

runs() { # BINARY
    [[ $("$1" --version) == *"$version"* ]] || fail "$1 does not say its version"
    "$1" --json >/dev/null || fail "$1 does not list processes"
}

(cd "$from" && sha256sum --check --quiet SHA256SUMS)

tar --extract --file "$from/$name.tar.gz" --directory "$work"
has "$work/$name" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT THIRD-PARTY.md man/man1/nodespy{,-record,-view,-agent}.1 \
    completions/nodespy.{bash,zsh,fish}
runs "$work/$name/nodespy"
pages=("$work/$name"/man/man1/*)
printf 'archive: binary, %s man pages, completions, licences; runs\n' "${#pages[@]}"

deb=$from/nodespy_${version}_amd64.deb
if [[ -e $deb ]]; then
    tree=$work/deb
    mkdir -p "$tree/var/lib/dpkg"/{info,updates}
    touch "$tree/var/lib/dpkg/status"
    if ((EUID == 0)); then
        # Not configured: that would need a shell and useradd in there.
        dpkg --root="$tree" --force-depends --unpack "$deb" >/dev/null
        [[ $(dpkg --root="$tree" --listfiles nodespy) == */usr/bin/nodespy* ]] || fail "dpkg knows no file of $deb"
    else
        dpkg-deb --extract "$deb" "$tree"
    fi
    dpkg-deb --control "$deb" "$work/control"
    for script in postinst prerm postrm; do sh -n "$work/control/$script"; done
    share=usr/share
    has "$tree" usr/sbin/nodespy-setcap usr/lib/systemd/system/nodespy-agent.service $share/bash-completion/completions/nodespy \
        $share/zsh/vendor-completions/_nodespy $share/fish/vendor_completions.d/nodespy.fish \
        $share/doc/nodespy/{copyright,changelog.gz,THIRD-PARTY.md.gz} $share/man/man1/nodespy{,-record,-view,-agent}.1.gz
    packed=("$tree/$share"/man/man1/*)
    ((${#packed[@]} == ${#pages[@]})) || fail "the .deb has ${#packed[@]} man pages, the archive ${#pages[@]}"
    runs "$tree/usr/bin/nodespy"
    printf '.deb: binary, man pages, completions, licences, unit, nodespy-setcap; installs into an empty root and runs; %s\n' \
        "$(grep Depends: "$work/control/control")"
fi

if [[ -e $from/nodespy-$version.tgz ]]; then
    npm install --silent --offline --no-audit --no-fund --global --prefix "$work/npm" "$from/nodespy-$version.tgz" \
        "$from/nodespy-linux-x64-$version.tgz" >/dev/null
    has "$work/npm/lib/node_modules" nodespy/README.md nodespy/LICENSE-MIT nodespy-linux-x64/{README.md,LICENSE-MIT,THIRD-PARTY.md}
    runs "$work/npm/bin/nodespy"
    printf 'npm: both packages install globally into an empty prefix, and run\n'
fi
