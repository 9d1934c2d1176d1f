"""Every example is short, runs as its first lines say, and says how the loader did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_at_most_sixty_lines(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) <= 60


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, EXAMPLES / name, tmp_path / "shards", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "the loop waited" in run.stdout
