#!/usr/bin/env bash
# Builds the wheels into dist/: x86-64 and aarch64 for a Linux of glibc 2.28 or later, with libjpeg-turbo, libdeflate and
# libwebp inside.
#
#   tools/wheels.sh                                   each target with each interpreter, then all wheels tried
#   tools/wheels.sh x86_64 python3.12                 one wheel, not tried
#   SOURCES=/path tools/wheels.sh                     the libraries' source archives from a folder
#
# There is one wheel each for CPython 3.10 and 3.11, and one of the stable ABI (cp312-abi3) for 3.12 and later.
# tools/wheels/try.sh tries the wheels of dist/ in bare environments and prints a table.
# Zig's Clang compiles for an older glibc and for aarch64 without a container.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$root/build/wheels
targets=${1:-x86_64 aarch64}
pythons=${2:-python3.10 python3.11 python3.12}

. tools/wheels/interpreter.sh

say() { printf '\033[1m%s\033[0m\n' "$*"; }
quiet() { "$@" >"$work/log" 2>&1 || { tail -40 "$work/log" >&2; exit 1; }; }
command -v nasm >/dev/null || { echo "nasm was not found, and libjpeg-turbo is slow without its assembly. Install it: apt-get install nasm" >&2; exit 1; }

# Compiler scripts for target $1: Zig's Clang, an older glibc, no sanitizer, no debugging data.
compilers() {
  mkdir -p "$STOKER_ZIG"
  local name options
  for name in cc c++ ar ranlib; do
    options=
    case $name in c*) options="-target $1-linux-gnu.2.28 -fno-sanitize=undefined -g0 -s" ;; esac
    # nanobind 3.1 uses stderr without its header where libc++ and the stable ABI leave it out.
    [ "$name" != c++ ] || options+=" -include stdio.h"
    printf '#!/bin/sh\nexec "%s" -m ziglang %s %s "$@"\n' "$tools/python" "$name" "$options" >"$STOKER_ZIG/$name"
    chmod +x "$STOKER_ZIG/$name"
  done
}

# The wheel of target $1 for the interpreter $2.
wheel() {
  local python=$work/${2##*/}/bin/python abi= suffix
  [ -e "$python" ] || quiet "$2" -m venv "${python%/bin/python}"
  quiet "$python" -m pip install --disable-pip-version-check 'scikit-build-core>=0.10' 'nanobind>=3' build
  say "wheel for $1, $("$python" --version)"
  suffix=$("$python" -c "import sys; print('.cpython-3%d-$1-linux-gnu.so' % sys.version_info.minor)")
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then abi=cp312 suffix=.abi3.so; fi
  mkdir -p "$work/$1/raw"
  rm -f "$work/$1/raw/"*.whl
  # Both variables tell the build for which machine it compiles, in place of the one that it runs on.
  _PYTHON_HOST_PLATFORM=linux-$1 SETUPTOOLS_EXT_SUFFIX=$suffix \
    quiet "$python" -m build --wheel --no-isolation --skip-dependency-check --outdir "$work/$1/raw" "-Cwheel.py-api=$abi" \
    "-Cbuild-dir=build/wheels/$1/{wheel_tag}" "-Ccmake.args=-G Ninja" "-Ccmake.define.CMAKE_PREFIX_PATH=$STOKER_PREFIX" \
    "-Ccmake.define.CMAKE_TOOLCHAIN_FILE=$root/tools/wheels/zig.cmake"
  quiet "$tools/python" -m wheel tags --remove --platform-tag "manylinux_2_28_$1" "$work/$1/raw/"*.whl
  "$tools/python" tools/wheels/portable.py "$work/$1/raw/"*.whl
  # auditwheel names the tag of a module of the machine that it runs on only.
  [ "$1" != "$(uname -m)" ] || "$tools/python" -m auditwheel show "$work/$1/raw/"*.whl | tr '\n' ' ' | grep -o 'following platform tag: *"[^"]*"'
  mv "$work/$1/raw/"*.whl dist/
}

mkdir -p "$work" dist
[ $# != 0 ] || rm -f dist/*.whl
tools=$work/tools/bin
[ -e "$tools/pip" ] || quiet python3 -m venv "$work/tools"
quiet "$tools/python" -m pip install --disable-pip-version-check 'ziglang==0.17.1' cmake ninja wheel pyelftools auditwheel
export PATH=$tools:$PATH
for target in $targets; do
  export STOKER_TARGET=$target STOKER_ZIG=$work/$target/zig STOKER_PREFIX=$work/$target/prefix
  compilers "$target"
  tools/wheels/libraries.sh "$work" "$STOKER_PREFIX" -G Ninja "-DCMAKE_TOOLCHAIN_FILE=$root/tools/wheels/zig.cmake"
  for python in $pythons; do
    path=$(interpreter "$python")  # a failure ends the script here
    wheel "$target" "$path"
  done
done
if [ $# = 0 ]; then tools/wheels/try.sh; fi
