"""Every example is short, runs as its first lines say, and says how the loader did."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))
# timm imports torchvision, which has no build for a PyTorch without CUDA: a stand-in takes its place here.
STANDINS = Path(__file__).parent / "standins"


def packages(name: str) -> set[str]:
    """What an example imports, less what a stand-in gives."""
    found = set()
    for node in ast.parse((EXAMPLES / name).read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    return found - {path.name for path in STANDINS.iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_at_most_sixty_lines(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) <= 60


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    missing = sorted(package for package in packages(name) if find_spec(package) is None)
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, which is not installed")
    found = {} if find_spec("timm") else {"PYTHONPATH": str(STANDINS)}
    run = subprocess.run(
        [sys.executable, EXAMPLES / name, tmp_path / "shards", "1"],
        cwd=tmp_path,
        env=os.environ | found,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "the loop waited" in run.stdout
