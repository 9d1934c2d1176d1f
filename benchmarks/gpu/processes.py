"""Processes of steps: their end with that of the runner, and their end at a deadline."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from contextlib import suppress
from typing import Any

_PR_SET_PDEATHSIG = 1  # prctl(2)
_FOR_STACKS = 5.0  # seconds in which a process on a busy machine writes where its threads are
_FOR_THE_KERNEL = 5.0
"""Seconds for a process that was killed. A fault of a driver can keep it alive, and the runner goes on."""
_LIBRARY = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Let the kernel end this process when its parent ends; for ``preexec_fn`` of ``subprocess.Popen``."""
    _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a group, and the group.

    SIGABRT comes first: Python, with its fault handler, then writes where each thread is.
    """
    for number, seconds in ((signal.SIGABRT, _FOR_STACKS), (signal.SIGKILL, _FOR_THE_KERNEL)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
