"""Ranks of PyTorch: two train to the losses of one, and one goes on from their checkpoint."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from helpers.processes.torch_ranks import check, train

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")


def test_two_ranks_train_to_the_losses_of_one_and_one_goes_on(thumbnails: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with ThreadPoolExecutor(1) as pool:
        of_one = pool.submit(train, thumbnails, 1, tmp_path)
        of_two = train(thumbnails, 2, tmp_path, "save", checkpoint)
    alone = of_one.result()
    check(of_two, alone, 2)
    check(train(thumbnails, 1, tmp_path, "load", checkpoint), alone, 1, begin=3)
    assert alone["losses"][-1] < alone["losses"][0]
