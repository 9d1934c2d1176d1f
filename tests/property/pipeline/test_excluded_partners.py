"""Samples that are excluded in mid-run do not return in mosaics, in mixed images, pasted or as padding."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import write_annotated
from helpers.loaders import image_arguments, planned

import stoker
from stoker import ImageLoader
from stoker.augment import (
    CopyPaste,
    CutMix,
    DetectionMixUp,
    MixUp,
    Mosaic,
    RandomChoice,
    RandomHorizontalFlip,
    Resize,
)
from stoker.pipeline.preview.replay import replay

COMBINED = [Mosaic(12, p=0.8), DetectionMixUp(p=0.5), RandomHorizontalFlip()]
BAD = {2, 11, 17, 30, 41, 58}
AT = 2  # the first batch without them


def run(loader: Any, bad: Any = ()) -> list[Any]:
    """The batches of two passes; ``bad`` is excluded from batch AT of the first one on."""
    batches: list[Any] = []
    for _ in range(2):
        for batch in loader:
            batches.append(batch)
            if bad and len(batches) == AT:
                assert loader.exclude(bad) == AT
    return batches


def shown(loader: Any) -> list[list[list[int]]]:
    """The samples that each image of two epochs shows, by batch and image."""
    plans = (planned(loader, epoch) for epoch in range(2))
    return [
        [batch.sources[batch.sources_of(i)].tolist() for i in range(len(batch))]
        for plan in plans
        for batch in plan
    ]


def check(sources: Any, kept: Any, before: list[Any], after: list[Any]) -> None:
    """Compare what images show, and the images, without and with an exclusion at AT."""
    for step, images in enumerate(sources):
        for i, old in enumerate(images):
            new = kept[step][i]
            assert step < AT or not set(new) & BAD
            expected = [b if step >= AT and a in BAD else a for a, b in zip(old, new, strict=True)]
            assert new == expected, "only excluded samples are replaced"
            if new == old:
                assert np.array_equal(before[step].image[i], after[step].image[i])


@pytest.mark.parametrize(
    ("ranks", "options", "resumed"),
    [
        (2, {"batch_size": 5, "shuffle": True, "last_batch": "pad"}, {"batch_size": 7}),
        (1, {"batch_size": 7, "sampler": stoker.Repeated(2)}, {"batch_size": 14}),
        (2, {"batch_size": 5, "steps_per_epoch": 8, "shuffle": True}, {"batch_size": 10}),
    ],
    ids=["padded", "repeated", "stream"],
)
def test_excluded_samples_do_not_return_as_partners_or_padding(
    thumbnails: Path, ranks: int, options: dict[str, Any], resumed: dict[str, Any]
) -> None:
    arguments = {"seed": 3, "columns": ("image", "row"), "transforms": COMBINED, "num_threads": 1, **options}
    state, images = {}, []
    for rank in range(ranks):
        with ImageLoader(thumbnails, **image_arguments(rank=rank, world_size=ranks, **arguments)) as loader:
            before, sources = run(loader), shown(loader)
        with ImageLoader(thumbnails, **image_arguments(rank=rank, world_size=ranks, **arguments)) as loader:
            after, kept = run(loader, BAD), shown(loader)
            check(sources, kept, before, after)
            described = json.loads(json.dumps(loader.describe()))
            for step in (AT - 1, AT, len(after) // 2 - 1):
                assert np.array_equal(loader.batch(0, step).image, after[step].image)
            assert np.array_equal(replay(described, AT, rank=rank).batch.image, after[AT].image)
            state = {**loader.state_dict(), "epoch": 0, "position": 30}
            loader.load_state_dict(state)
            images.append(np.concatenate([batch.image for batch in loader]))
    whole = np.stack(images, axis=1).reshape(-1, 3, 12, 12)  # ranks take turns
    with ImageLoader(
        thumbnails, **image_arguments(**{**arguments, **resumed, "last_batch": "partial"})
    ) as loader:
        loader.load_state_dict(state)
        one_rank = np.concatenate([batch.image for batch in loader])
    assert len(one_rank) > 30
    assert np.array_equal(one_rank, whole[: len(one_rank)]), "another number of ranks makes the same images"


def test_excluded_samples_do_not_return_in_batches_planned_by_sizes(thumbnails: Path) -> None:
    options: dict[str, Any] = {
        "batch_size": 5,
        "shuffle": True,
        "sizes": stoker.AspectBuckets(area=144, multiple=4, buckets=2),
        "columns": ("image", "row"),
        "transforms": COMBINED,
        "num_threads": 1,
    }
    with ImageLoader(thumbnails, **image_arguments(**options)) as loader:
        before, sources = run(loader), shown(loader)
    with ImageLoader(thumbnails, **image_arguments(**options)) as loader:
        after = run(loader, BAD)
        check(sources, shown(loader), before, after)


def test_objects_of_excluded_samples_are_not_pasted(pack_images: Callable[..., Path]) -> None:
    with ImageLoader(
        write_annotated(pack_images),
        batch_size=1,
        shuffle=True,
        columns=("image", "object_id"),
        transforms=[Resize((30, 40)), CopyPaste(1.0, 1.0)],
        num_threads=1,
    ) as loader:
        before = list(loader)
        loader.set_epoch(0)
        running = iter(loader)
        after = [next(running), next(running)]
        loader.exclude([3, 5])
        after += running
        assert {3, 5} & {number // 100 for batch in before[AT:] for number in batch.object_id[0]}
        assert not {3, 5} & {number // 100 for batch in after[AT:] for number in batch.object_id[0]}
        for step in range(AT):
            assert np.array_equal(loader.batch(0, step).image, before[step].image)


def test_an_exclusion_does_not_change_the_choice_between_mixup_and_cutmix(thumbnails: Path) -> None:
    options: dict[str, Any] = {
        "batch_size": 4,
        "columns": ("image", "row"),
        "transforms": [Resize((8, 8)), RandomChoice([MixUp(), CutMix()])],
        "num_threads": 1,
    }
    with ImageLoader(thumbnails, **image_arguments(**options)) as loader:
        before = list(loader)
    with ImageLoader(thumbnails, **image_arguments(**options)) as loader:
        loader.exclude(range(0, 60, 4))  # the first sample of each batch
        after = list(loader)
    for old, new in zip(before, after, strict=True):
        # Samples 2 and 3 are mixed with samples 1 and 2.
        assert np.array_equal(old.image[2:], new.image[2:])
