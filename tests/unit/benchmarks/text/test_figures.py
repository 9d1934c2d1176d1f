"""The figures of batching by length run from an installed package, without the rest of a checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import stoker

# What pyproject.toml leaves out of a wheel, and what Python makes.
LEFT_OUT = shutil.ignore_patterns("results", "*.sh", "README.md", "__pycache__")


def test_the_figures_run_from_an_installed_package(tmp_path: Path) -> None:
    shutil.copytree(Path(stoker.__file__).parent, tmp_path / "site" / "stoker", ignore=LEFT_OUT)
    done = subprocess.run(
        [sys.executable, "-m", "stoker.benchmarks.text.figures", "--quick"],
        env={"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "GSM8K answers packed at 256" in done.stdout
