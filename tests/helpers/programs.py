"""Programs of this folder, run in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run_program(name: str, *arguments: str | Path, timeout: float = 1200) -> str:
    """Runs a program to its good end and returns what it prints."""
    command = [sys.executable, Path(__file__).with_name(name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
