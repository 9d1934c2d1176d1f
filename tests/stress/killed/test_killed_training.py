"""A training run that is killed at any moment goes on with the losses of the undisturbed run."""

from pathlib import Path

import pytest
from helpers.processes import run_program


def test_a_run_goes_on_after_ten_kills_at_random_moments(tmp_path: Path, thumbnails: Path) -> None:
    pytest.importorskip("torch")
    assert int(run_program("killed_training.py", thumbnails, tmp_path, "moments")) > 0
