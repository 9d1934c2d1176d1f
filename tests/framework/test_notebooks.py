"""The notebooks in examples/: each cell runs, and shows what the file shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.processes.side_by_side import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def run(notebook: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "docs" / "notebooks.py"), str(notebook)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Any]:
    with side_by_side(request, "notebook", run) as found:
        yield found


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_file_shows(notebook: Path, runs: Any) -> None:
    done = runs[notebook].result()
    assert done.returncode == 0, done.stderr
