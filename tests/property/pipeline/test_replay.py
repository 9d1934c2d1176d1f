"""Batches that a replay makes from the description of a loader: those of the training, on any rank."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import shards as text_shards
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader, RandomSizes
from stoker.augment import MixUp, Normalize, RandomHorizontalFlip, RandomResizedCrop, Views
from stoker.pipeline.preview.replay import replay

CROP = [RandomResizedCrop(16), RandomHorizontalFlip()]


def check(make: Callable[[int], Any], ranks: int) -> None:
    """Compares 25 random batches of three epochs on all ranks with those of a replay by one rank."""
    seen: list[list[Any]] = []
    for rank in range(ranks):
        with make(rank) as loader:
            seen.append([batch for _ in range(3) for batch in loader])
            described = json.loads(json.dumps(loader.describe()))
    random = np.random.default_rng(ranks)
    for step in random.integers(len(seen[0]), size=25).tolist():
        rank = int(random.integers(ranks))
        found, expected = replay(described, step, rank=rank).batch, seen[rank][step]
        for name in expected._fields:
            assert np.array_equal(getattr(found, name), getattr(expected, name)), (name, step, rank)


def test_mixup_on_a_mixture_of_selections_is_replayed_for_eight_ranks(thumbnails: Path) -> None:
    opened = stoker.open(thumbnails)
    mixture = stoker.mix([(opened.select(np.arange(40)), 0.7), (opened.select(np.arange(20, 61)), 0.3)])
    options: dict[str, Any] = {"batch_size": 3, "shuffle": True, "last_batch": "pad", "seed": 5}
    options |= {"transforms": [*CROP, Normalize(), MixUp()], "columns": ("image", "key")}
    check(lambda rank: ImageLoader(mixture, **image_arguments(rank=rank, world_size=8, **options)), 8)


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        (
            2,
            {
                "pixels_per_batch": 2048,
                "sizes": RandomSizes(8, 24, 8, every=2),
                "transforms": CROP,
                "shuffle": stoker.BlockShuffle(8),
            },
        ),
        (
            3,
            {
                "batch_size": 5,
                "steps_per_epoch": 3,
                "sampler": stoker.ClassBalanced(),
                "transforms": {"a": Views(2, CROP), "b": CROP},
            },
        ),
        (2, {"batch_size": 6, "sampler": stoker.Repeated(3), "transforms": CROP, "shuffle": True}),
        (2, {"batch_size": 5, "sampler": stoker.Weighted("label"), "transforms": CROP, "last_batch": "drop"}),
    ],
)
def test_images_are_replayed_for_every_rank(thumbnails: Path, ranks: int, options: dict[str, Any]) -> None:
    check(
        lambda rank: ImageLoader(thumbnails, **image_arguments(rank=rank, world_size=ranks, **options)), ranks
    )


def test_packed_text_is_replayed_for_every_rank(tmp_path: Path) -> None:
    shards = text_shards.write_shards(tmp_path)
    check(lambda rank: text_shards.make(shards, rank=rank, world_size=2, pack=32, batch_size=4), 2)
