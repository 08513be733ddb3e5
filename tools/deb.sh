#!/usr/bin/env bash
# A Debian package of what tools/dist.sh has put into a folder: the binary, man pages and completions; with the agent's unit, which is
# not started, and nodespy-setcap.
#
#   tools/deb.sh FOLDER PACKAGE.deb
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if (($# != 2)); then
    sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
from=$1 package=$2
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
# What it needs at run time beside what postinst calls: the C library, unless it is linked in.
glibc=$("$root/tools/libc.sh" "$from/nodespy")
libraries=
if [[ $glibc != static ]]; then
    libraries="libc6 (>= $glibc), libgcc-s1, "
fi

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
share=$tree/usr/share
install -D -m 755 "$from/nodespy" "$tree/usr/bin/nodespy"
for page in "$from"/man/man1/*; do
    install -D -m 644 "$page" "$share/man/man1/${page##*/}"
    gzip -9n "$share/man/man1/${page##*/}"
done
install -D -m 644 "$from/completions/nodespy.bash" "$share/bash-completion/completions/nodespy"
install -D -m 644 "$from/completions/nodespy.zsh" "$share/zsh/vendor-completions/_nodespy"
install -D -m 644 "$from/completions/nodespy.fish" "$share/fish/vendor_completions.d/nodespy.fish"
install -D -m 644 "$root/CHANGELOG.md" "$share/doc/nodespy/changelog"
gzip -9n "$share/doc/nodespy/changelog"
cat - "$root/LICENSE-MIT" >"$share/doc/nodespy/copyright" <<'END'
nodespy is licensed under the MIT licence, below, or the Apache License 2.0
(/usr/share/common-licenses/Apache-2.0), at your option. The licences of what
the binary contains are in THIRD-PARTY.md.gz beside this file.

END
chmod 644 "$share/doc/nodespy/copyright"
install -m 644 "$root/THIRD-PARTY.md" "$share/doc/nodespy/THIRD-PARTY.md"
gzip -9n "$share/doc/nodespy/THIRD-PARTY.md"
install -D -m 644 "$root/deploy/nodespy-agent.service" "$tree/usr/lib/systemd/system/nodespy-agent.service"
install -D -m 755 "$root/deploy/debian/nodespy-setcap" "$tree/usr/sbin/nodespy-setcap"
mkdir "$tree/DEBIAN"
install -m 755 "$root"/deploy/debian/{postinst,prerm,postrm} "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<END
Package: nodespy
Version: $version
Architecture: amd64
Maintainer: The nodespy authors <nodespy@localhost>
Homepage: https://github.com/nodespy/nodespy
Section: devel
Priority: optional
Depends: ${libraries}libcap2-bin, passwd
Installed-Size: $(du -sk "$tree/usr" | cut -f 1)
Description: profiler for Node.js on Linux
 Profiles any running Node.js process, with no flags and no restart:
 JavaScript, C++, libuv and kernel frames in one stack, async callers and
 HTTP routes.
END
# The same bytes wherever and whenever it is packed.
find "$tree" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-0}" {} +
dpkg-deb --root-owner-group -Zxz "-z${LEVEL:-9}" --build "$tree" "$package" >/dev/null
