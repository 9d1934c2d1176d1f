"""Running of the programs of this folder and its subfolders, each in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from helpers.processes.warm_python import WarmPython

TESTS = Path(__file__).parents[2]


def run_program(name: str, *arguments: str | Path, timeout: float = 1200) -> str:
    """Runs a program to its good end and returns what it prints."""
    command = [sys.executable, Path(__file__).parent / name, *arguments]
    path = os.pathsep.join([str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_in_fork(python: WarmPython, name: str, *arguments: str | Path) -> str:
    """Runs a program, which must succeed, in a fork of a warm process, and returns what it prints."""
    return python.output(Path(__file__).parent / name, *arguments, paths=[TESTS])


def die() -> None:
    """Kills this process, as the machine or another program may."""
    os.kill(os.getpid(), signal.SIGKILL)
