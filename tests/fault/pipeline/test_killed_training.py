"""A training run that is killed goes on from its last checkpoint with the losses of the undisturbed run."""

from pathlib import Path

import pytest
from helpers.processes import run_in_fork
from helpers.warm_python import WarmPython


def test_a_run_goes_on_after_kills_between_and_in_checkpoints(
    tmp_path: Path, thumbnails: Path, warm_torch: WarmPython
) -> None:
    pytest.importorskip("torch")
    torn = int(run_in_fork(warm_torch, "killed_training.py", thumbnails, tmp_path, "steps"))
    assert torn >= 2, "runs that were killed while they wrote a checkpoint"
