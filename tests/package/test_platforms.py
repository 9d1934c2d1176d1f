"""Platforms that Stoker refuses, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

WINDOWS = """
import sys
sys.platform = "win32"
import stoker
"""
SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import stoker
code = '''
try:
    import stoker
except ImportError as error:
    with open(%r, "w") as file:
        file.write(str(error))
'''
interpreters.run_string(interpreters.create(), code % sys.argv[1])
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_windows_is_refused_with_the_name_of_wsl() -> None:
    assert "ImportError: Stoker does not run on Windows itself. Run it in WSL" in run(WINDOWS).stderr


def test_a_subinterpreter_is_refused_and_the_main_interpreter_goes_on(tmp_path: Path) -> None:
    done = run(SUBINTERPRETER, tmp_path / "error")
    assert done.returncode == 0, done.stderr
    assert "does not run in a subinterpreter" in (tmp_path / "error").read_text()


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="needs free-threaded Python")
def test_free_threaded_python_turns_its_lock_on_and_says_so() -> None:
    done = run("import sys; from stoker import _native; print(sys._is_gil_enabled())")
    assert done.stdout == "True\n"
    assert "has been enabled to load module 'stoker._native'" in done.stderr
