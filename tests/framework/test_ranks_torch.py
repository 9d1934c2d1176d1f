"""torchrun with gloo: two and four ranks train to the losses of one rank with the global batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "programs" / "ddp.py"
GLOBAL_BATCH = 12


def train(shards: Path, ranks: int, folder: Path, *checkpoint: str | Path) -> Any:
    """What ``programs/ddp.py`` found on so many ranks."""
    result = folder / f"{ranks}.json"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    done = subprocess.run(
        [*launcher, PROGRAM, shards, str(GLOBAL_BATCH), result, *checkpoint],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)},  # torchrun leaves its folder there
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(result.read_text())


@pytest.fixture(scope="module")
def alone(thumbnails: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(thumbnails, 1, tmp_path_factory.mktemp("alone"))


def check(found: Any, alone: Any, ranks: int, begin: int = 0) -> None:
    assert len(found["losses"]) == 10 - begin  # 61 samples, 5 global batches of 12 an epoch, two epochs
    for step, (of_all, (expected,)) in enumerate(zip(found["steps"], alone["steps"][begin:], strict=True)):
        # Rank r holds every ranks-th sample of the global batch, from the r-th on.
        assert of_all == [expected[rank::ranks] for rank in range(ranks)], step
    # The mean of the ranks' means is summed in another order: rounding of float32, grown over ten steps.
    assert found["losses"] == pytest.approx(alone["losses"][begin:], rel=2e-5)


def test_two_ranks_train_to_the_losses_of_one(thumbnails: Path, tmp_path: Path, alone: Any) -> None:
    check(train(thumbnails, 2, tmp_path), alone, 2)
    assert alone["losses"][-1] < alone["losses"][0]


def test_four_ranks_do_and_two_go_on_from_their_checkpoint(
    thumbnails: Path, tmp_path: Path, alone: Any
) -> None:
    checkpoint = tmp_path / "checkpoint"
    check(train(thumbnails, 4, tmp_path, "save", checkpoint), alone, 4)
    check(train(thumbnails, 2, tmp_path, "load", checkpoint), alone, 2, begin=3)
