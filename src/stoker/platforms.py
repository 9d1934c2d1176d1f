"""A check for platforms that Stoker cannot run on; ``import stoker`` calls it."""

from __future__ import annotations

import importlib
import sys


def check_platform() -> None:
    """Check that Stoker can run on this system and in this interpreter."""
    if sys.platform == "win32":
        raise ImportError(
            "Stoker does not run on Windows itself. Run it in WSL, the Windows Subsystem for Linux: "
            "wsl --install"
        )
    if not _is_main_interpreter():
        raise ImportError(
            "Stoker does not run in a subinterpreter, as its C++ module has one state for the process. "
            "Import it in the main interpreter, and use threads or processes."
        )


def _is_main_interpreter() -> bool:
    """Return whether this is the interpreter that the process began with."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # CPython 3.13 and later, and earlier versions
        try:
            current = importlib.import_module(name).get_current()
        except ImportError:
            continue
        return int(current[0] if isinstance(current, tuple) else current) == 0
    return True
