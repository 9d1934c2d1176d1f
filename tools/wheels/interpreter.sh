# shellcheck shell=bash
# Prints the path of the interpreter $1: one of PATH, else the newest of pyenv's.
interpreter() {
  if "$1" --version >/dev/null 2>&1; then command -v "$1"; return; fi
  ls -v "${PYENV_ROOT:-$HOME/.pyenv}/versions/${1#python}".*/bin/"$1" 2>/dev/null | tail -1 | grep . ||
    { echo "$1 was not found. Install it, or name the interpreters that you have" >&2; return 1; }
}
