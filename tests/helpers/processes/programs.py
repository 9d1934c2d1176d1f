"""Running of the programs of this folder and its subfolders, each in its own process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.processes.warm_python import WarmPython

from stoker.errors import DatasetError

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


def printed_json(code: str, *arguments: object) -> list[Any]:
    """Runs Python code without GPUs and warnings, and returns the JSON of each line that it prints."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def fork(work: Callable[[], object]) -> int:
    """Runs a function in a forked process, and returns its id; see :func:`end_of`."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except DatasetError as error:
        os._exit(3 if "already" in str(error) else 4)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(5)


def end_of(child: int) -> int:
    """Waits for a process, and returns its status: minus a signal, or 3 if the dataset was already there."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die() -> None:
    """Kills this process, as the machine or another program may."""
    os.kill(os.getpid(), signal.SIGKILL)
