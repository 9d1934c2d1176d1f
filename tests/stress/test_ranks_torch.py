"""Ranks of PyTorch: four train to the losses of one, and two go on from their checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.ranks import check, train

pytest.importorskip("torch")


def test_four_ranks_train_to_the_losses_of_one_and_two_go_on(thumbnails: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    alone = train(thumbnails, 1, tmp_path)
    check(train(thumbnails, 4, tmp_path, "save", checkpoint), alone, 4)
    check(train(thumbnails, 2, tmp_path, "load", checkpoint), alone, 2, begin=3)
