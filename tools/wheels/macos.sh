#!/usr/bin/env bash
# Compiles the C++ code for macOS on Apple processors, with Zig's Clang and the headers of tools/wheels.sh, which must have run before.
#
#   tools/wheels/macos.sh                     all files; or those that are named
#
# It shows that no call is missing on that platform. It links and runs nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$PWD/build/wheels
export OBJECTS=$work/macos TOOLS=$work/tools/bin/python
mkdir -p "$OBJECTS"
packages=$(echo "$work"/python3.*/bin/python | cut -d' ' -f1)
python=$("$packages" -c 'import sysconfig; print(sysconfig.get_path("include"))')
nanobind=$("$packages" -c 'import nanobind; print(nanobind.include_dir())')
export OPTIONS="-target aarch64-macos.11.0 -std=c++20 -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Inative -isystem $nanobind -isystem $python -isystem $work/x86_64/prefix/include"
compile() {
  local cpu=
  case $1 in *armv8*) cpu=-mcpu=apple_m1 ;; esac
  # shellcheck disable=SC2086
  "$TOOLS" -m ziglang c++ $OPTIONS $cpu -c "$1" -o "$OBJECTS/$(echo "$1" | tr / _).o"
}
export -f compile
if [ $# = 0 ]; then readarray -t files < <(find native -name '*.cpp'); else files=("$@"); fi
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} bash -c 'compile {}'
echo "${#files[@]} files compiled for macOS"
