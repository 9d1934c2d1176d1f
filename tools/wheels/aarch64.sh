#!/usr/bin/env bash
# Unpacks Debian's Python for aarch64, with the libraries that it and wheels need, into a folder: aarch64.sh 3.11|3.13 FOLDER
#
# qemu-aarch64-static -L FOLDER/root FOLDER/root/usr/bin/python3.11 runs it. Nothing is installed on this machine.
set -euo pipefail
version=$1
folder=$(mkdir -p "$2" && cd "$2" && pwd)
[ ! -e "$folder/root/usr/bin/python$version" ] || exit 0
command -v qemu-aarch64-static >/dev/null || { echo "qemu-aarch64-static was not found: apt-get install qemu-user-static" >&2; exit 1; }
common="libc6 libgcc-s1 libstdc++6 zlib1g libbz2-1.0 liblzma5 libncursesw6 libtinfo6 libuuid1 libcrypt1"
case $version in
  3.11) suite=bookworm packages="$common libffi8 libexpat1 libssl3 libsqlite3-0 libreadline8" ;;
  3.13) suite=trixie packages="$common libffi8 libexpat1 libssl3t64 libsqlite3-0 libreadline8t64 libzstd1" ;;
  *) echo "Debian has no Python $version: give 3.11 or 3.13" >&2; exit 1 ;;
esac
packages+=" libpython$version-minimal libpython$version-stdlib python$version-minimal"
mkdir -p "$folder"/{apt/sources,apt/lists/partial,apt/cache/archives/partial,root}
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:?apt knows no mirror of Debian} $suite main" >"$folder/apt/sources/debian.list"
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$folder/apt/sources"
  -o "Dir::State::Lists=$folder/apt/lists" -o "Dir::Cache=$folder/apt/cache" -o APT::Sandbox::User=root)
apt-get "${options[@]}" update
# shellcheck disable=SC2086
(cd "$folder/apt" && apt-get "${options[@]}" download $packages)
# /lib and its kin are links into /usr, as packages of Debian expect.
mkdir -p "$folder/root/usr/lib" "$folder/root/usr/bin"
ln -sfn usr/lib "$folder/root/lib"
for file in "$folder"/apt/*.deb; do dpkg-deb --fsys-tarfile "$file" | tar x --keep-directory-symlink -C "$folder/root"; done
