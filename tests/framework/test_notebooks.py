"""The notebooks in examples/: each cell runs, and shows what the file shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.warm_python import WarmPython

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_file_shows(notebook: Path, warm_torch: WarmPython) -> None:
    warm_torch.output(ROOT / "tools" / "docs" / "notebooks.py", notebook)
