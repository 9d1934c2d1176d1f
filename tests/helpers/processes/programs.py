"""Programs of this folder and those below it, run in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_program(name: str, *arguments: str | Path, timeout: float = 1200) -> str:
    """Runs a program to its good end and returns what it prints."""
    command = [sys.executable, Path(__file__).parent / name, *arguments]
    path = os.pathsep.join(
        [str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    )
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
