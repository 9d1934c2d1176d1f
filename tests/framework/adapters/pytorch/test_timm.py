"""timm: a loader has what the newest train.py of timm (1.0.29) asks of the loader that it trains on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stoker import ImageLoader
from stoker.augment import Resize


def set_loader_epoch(loader: Any, epoch: int) -> None:
    """Stands in for the function of train.py that tells a loader its epoch, with the same look-ups."""
    if hasattr(loader.dataset, "set_epoch"):
        loader.dataset.set_epoch(epoch)
    if hasattr(loader.batch_sampler, "set_epoch"):
        loader.batch_sampler.set_epoch(epoch)
    elif hasattr(loader.sampler, "set_epoch"):
        loader.sampler.set_epoch(epoch)


def load(folder: Path) -> ImageLoader:
    columns = ("image", "row")
    return ImageLoader(
        folder, batch_size=16, shuffle=True, transforms=[Resize((8, 8))], columns=columns, last_batch="drop"
    )


def test_a_training_that_starts_at_a_later_epoch_draws_the_batches_of_that_epoch(thumbnails: Path) -> None:
    with load(thumbnails) as loader, load(thumbnails) as other:
        whole = [[rows.tolist() for _, rows in other] for _ in range(4)]
        for epoch in (2, 3, 2):
            set_loader_epoch(loader, epoch)
            steps = [(step, rows.tolist()) for step, (_, rows) in enumerate(loader)]
            assert steps == list(enumerate(whole[epoch]))
            assert steps[-1][0] == len(loader) - 1


def test_what_trainers_ask_of_a_data_loader(thumbnails: Path) -> None:
    with load(thumbnails) as loader:
        sampler = loader.sampler
        assert (loader.batch_size, loader.drop_last, len(loader.batch_sampler)) == (16, True, 3)
        assert (len(sampler), sampler.num_replicas, sampler.rank) == (48, 1, 0)
        loader.batch_sampler.sampler.set_epoch(2)
        assert loader.state_dict()["epoch"] == 2
