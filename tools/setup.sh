#!/usr/bin/env bash
# Makes a virtual environment with Stoker and everything that the demo and the tests need. A second run is quick.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}
python=${PYTHON:-python3}

say() { printf '\033[1m%s\033[0m\n' "$*"; }

# System packages are installed only where something is missing.
missing=()
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Stoker needs Python 3.10 or later; set PYTHON=/path/to/python3" >&2; exit 1; }
"$python" -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
"$python" -c 'import sysconfig, pathlib, sys; sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())' || missing+=(python3-dev)
echo '#include <stdio.h>
#include <jpeglib.h>' | c++ -x c++ -E - >/dev/null 2>&1 || missing+=(libjpeg-dev)
echo '#include <libdeflate.h>' | c++ -x c++ -E - >/dev/null 2>&1 || missing+=(libdeflate-dev)
command -v c++ >/dev/null || missing+=(g++)

# Installs packages; $1 is the command that gives the rights for it, or nothing. Another installation, such as
# the updates of a machine that has just started, may hold dpkg's lock for minutes.
install() {
  local rights=$1
  shift
  command -v apt-get >/dev/null && $rights apt-get update -qq &&
    $rights env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=300 "$@"
}

sudo=
if [ "$(id -u)" != 0 ]; then sudo=sudo; fi
if ((${#missing[@]})); then
  say "Installing system packages: ${missing[*]}"
  install "$sudo" "${missing[@]}" || { echo "Install these with your package manager, then run this again: ${missing[*]}" >&2; exit 1; }
fi
# libwebp is optional: no password is asked for it.
if ! echo '#include <webp/demux.h>' | c++ -x c++ -E - >/dev/null 2>&1; then
  install "${sudo:+sudo -n}" libwebp-dev >/dev/null 2>&1 || say "libwebp-dev is not installed: Pillow will decode WebP, more slowly"
fi

# An environment whose creation was stopped has Python, but no pip.
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || { say "Making $venv"; "$python" -m venv "$venv"; }
say "Installing Stoker and the packages of its demo and tests (a few minutes the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --group dev
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable .
say "Ready: $venv"
