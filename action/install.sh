#!/usr/bin/env bash
# The first step of action.yml: puts nodespy into the PATH of the steps that follow.
#
# PACKAGE is a file or an address; else VERSION is a release of this repository, checked by its SHA256SUMS.
set -euo pipefail

folder=$RUNNER_TEMP/nodespy
mkdir -p "$folder/bin"

fetch() { curl --fail --silent --show-error --location --retry 3 --output "$2" "$1"; } # ADDRESS FILE

if [[ -n ${PACKAGE:-} ]]; then
    archive=$PACKAGE
    if [[ $PACKAGE == http://* || $PACKAGE == https://* ]]; then
        archive=$folder/package
        fetch "$PACKAGE" "$archive"
    fi
elif [[ -n ${VERSION:-} ]]; then
    name=nodespy-$VERSION-x86_64-linux.tar.gz
    release=https://github.com/$GITHUB_ACTION_REPOSITORY/releases/download/v$VERSION
    archive=$folder/$name
    fetch "$release/$name" "$archive"
    fetch "$release/SHA256SUMS" "$folder/SHA256SUMS"
    (cd "$folder" && grep -F "  $name" SHA256SUMS | sha256sum --check --quiet -)
else
    printf '::error::nodespy: set the input version or package\n'
    exit 1
fi

# The archive has nodespy-VERSION-x86_64-linux/nodespy, the npm package package/bin/nodespy.
member=$(tar --list --file "$archive" | grep -E '^(package/bin|nodespy-[^/]+)/nodespy$' | head -n 1 || true)
if [[ -z $member ]]; then
    printf '::error::nodespy: %s holds no binary of nodespy for this platform\n' "${archive##*/}"
    exit 1
fi
tar --extract --file "$archive" --to-stdout "$member" >"$folder/bin/nodespy"
chmod 755 "$folder/bin/nodespy"
"$folder/bin/nodespy" --version
printf '%s\n' "$folder/bin" >>"$GITHUB_PATH"
