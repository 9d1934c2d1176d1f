#!/usr/bin/env bash
# Tries the wheels of dist/ in bare environments and prints a table: platform, interpreter, wheel, check, unit tests.
#
#   tools/wheels/try.sh                              all interpreters that this machine has, and aarch64 under qemu-user
#   tools/wheels/try.sh python3.13                   one of this machine's
#   tools/wheels/try.sh aarch64:3.11                 one of Debian's for aarch64, under qemu-user
#
# An environment has the wheel, its dependencies and small packages that the tests need; its PATH has no compiler. The tests that need
# a framework or DALI are skipped there. Under the emulator only the tests of the C++ module run.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$root/build/wheels/try
mkdir -p "$work"
tests="pytest hypothesis fsspec aiohttp tokenizers matplotlib ml_dtypes"
rows=()
. tools/wheels/interpreter.sh

# Prints the last line of the file $1 that matches $2, or a dash.
line() { grep -aE "$2" "$1" | tail -1 | grep . || echo -; }

# Adds the row of platform $1, interpreter $2, wheel $3, with the logs $4.check and $4.tests.
row() { rows+=("$1 | $2 | $(basename "$3") | $(line "$4.check" '^imported|Error') | $(line "$4.tests" ' (passed|failed|error)')"); }

here() {
  local python name=$work/$1 wheel tool
  python=$(interpreter "$1") && "$python" -m venv --clear "$name" >/dev/null 2>&1 || { rows+=("$(uname -m) | $1 | not on this machine | - | -"); return; }
  local pip="$name/bin/python -m pip --disable-pip-version-check"
  wheel=$($pip download --quiet --no-index --no-deps --find-links dist --dest "$name" stoker >/dev/null 2>&1; ls "$name"/*.whl)
  # shellcheck disable=SC2086
  $pip install --quiet --only-binary :all: "$wheel" $tests >"$name.check" 2>&1 || { row "$(uname -m)" "$1" "$wheel" "$name"; return; }
  for tool in sh gunzip gzip sleep; do ln -s "$(command -v $tool)" "$name/bin/"; done  # which tests of commands run
  local bare=(env -i "HOME=$name" "PATH=$name/bin" PYTHONNOUSERSITE=1)
  (cd "$name" && "${bare[@]}" stoker doctor && "${bare[@]}" python "$root/tools/wheels/check.py") >"$name.check" 2>&1
  "${bare[@]}" python -m pytest -q -p no:cacheprovider tests/unit >"$name.tests" 2>&1
  row "$(uname -m)" "$("$name/bin/python" -V | cut -d' ' -f2)" "$wheel" "$name"
}

emulated() {
  local version=$1 name=$work/aarch64-$1 wheel
  local python="$name/root/usr/bin/python$version" site=$name/site abi=cp${1/./}
  tools/wheels/aarch64.sh "$version" "$name" || { rows+=("aarch64 | $version | its interpreter could not be had | - | -"); return; }
  # The newest wheel that this interpreter takes: its own, else that of the stable ABI.
  wheel=$(ls dist/*-"$abi"-"$abi"-*aarch64.whl 2>/dev/null || ls dist/*-abi3-*aarch64.whl)
  rm -rf "$site"
  # shellcheck disable=SC2086
  python3 -m pip --disable-pip-version-check install --quiet --target "$site" --only-binary :all: --python-version "$version" --implementation cp \
    --abi "$abi" --abi abi3 --abi none --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 \
    "$wheel" $tests >"$name.check" 2>&1
  local run=(env -i "HOME=$name" "PYTHONHOME=$name/root/usr" "PYTHONPATH=$site" qemu-aarch64-static -L "$name/root" "$python")
  "${run[@]}" tools/wheels/check.py >"$name.check" 2>&1
  # The test that is left out starts Python itself, which the emulator cannot.
  "${run[@]}" -m pytest -q -p no:cacheprovider tests/unit/native --deselect \
    tests/unit/native/test_module.py::TestCpuLevel::test_a_lower_level_can_be_asked_for >"$name.tests" 2>&1
  row aarch64 "$("${run[@]}" -V | cut -d' ' -f2)" "$wheel" "$name"
}

[ $# != 0 ] || set -- python3.10 python3.11 python3.12 python3.13 aarch64:3.11 aarch64:3.13
for what in "$@"; do
  case $what in aarch64:*) emulated "${what#*:}" ;; *) here "$what" ;; esac
done
printf '%s\n' "platform | interpreter | wheel | check | tests" "${rows[@]}"
! printf '%s\n' "${rows[@]}" | grep -qE '\| -|Error|failed|error'
