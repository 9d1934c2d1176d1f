"""Single batches by ``loader.batch``: those that passes hand out, for any rank and while a pass runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import shards as text_shards
from helpers.loaders import image_arguments

import stoker
from stoker import BlockShuffle, ImageLoader, RandomSizes
from stoker.augment import MixUp, Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.errors import ConfigError, LoaderClosedError

CROP = [RandomResizedCrop(16), RandomHorizontalFlip()]


def equal(first: Any, second: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def check(make: Callable[[int], Any], ranks: int, seed: int) -> None:
    """Compares 25 random batches of three epochs with those of the ranks' passes, while a pass runs."""
    seen = []
    for rank in range(ranks):
        with make(rank) as loader:
            seen.append([list(loader) for _ in range(3)])
    random = np.random.default_rng(seed)
    with make(0) as loader:
        running, received = iter(loader), []
        for _ in range(25):
            rank, epoch = int(random.integers(ranks)), int(random.integers(3))
            step = int(random.integers(len(seen[rank][epoch])))
            assert equal(loader.batch(epoch, step, rank=rank), seen[rank][epoch][step])
            received += [batch for batch in [next(running, None)] if batch is not None]
        received += list(running)
        assert len(received) == len(seen[0][0])
        assert all(equal(a, b) for a, b in zip(received, seen[0][0], strict=True)), "the pass was disturbed"
        assert loader.stats().batches == len(received)


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        (1, {"batch_size": 7, "shuffle": True, "transforms": [*CROP, Normalize(), MixUp()]}),
        (3, {"batch_size": 4, "shuffle": BlockShuffle(8), "last_batch": "pad", "transforms": CROP}),
        (2, {"batch_size": 5, "steps_per_epoch": 4, "sampler": stoker.ClassBalanced(), "transforms": CROP}),
        (2, {"pixels_per_batch": 2048, "sizes": RandomSizes(8, 24, 8, every=2), "transforms": CROP}),
    ],
)
def test_single_batches_of_images_are_those_of_the_passes(
    thumbnails: Path, ranks: int, options: dict[str, Any]
) -> None:
    arguments = {"seed": 3, "columns": ("image", "row"), **options}
    check(
        lambda rank: ImageLoader(thumbnails, **image_arguments(rank=rank, world_size=ranks, **arguments)),
        ranks,
        seed=ranks,
    )


@pytest.mark.parametrize("options", [{"max_tokens": 64}, {"pack": 32, "batch_size": 4}])
def test_single_batches_of_text_are_those_of_the_passes(tmp_path: Path, options: dict[str, Any]) -> None:
    shards = text_shards.write_shards(tmp_path)
    check(lambda rank: text_shards.make(shards, rank=rank, world_size=2, **options), 2, seed=1)


def test_a_batch_that_does_not_exist_is_refused(thumbnails: Path) -> None:
    with ImageLoader(thumbnails, batch_size=16, transforms=CROP) as loader:
        for arguments, message in [
            ({"epoch": -1, "step": 0}, "epoch must be at least 0, found -1"),
            ({"epoch": 2, "step": len(loader)}, f"epoch 2 has no step {len(loader)}: its steps are 0 to"),
            ({"epoch": 0, "step": 0, "rank": 1}, "there is no rank 1: the loader has 1 ranks"),
        ]:
            with pytest.raises(ConfigError, match=message):
                loader.batch(**arguments)
    with pytest.raises(LoaderClosedError):
        loader.batch(0, 0)
