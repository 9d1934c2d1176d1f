"""Sizes of images by epoch and by step, and batches of as many pixels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.annotations.annotated_scenes import write_annotated

from stoker import ImageLoader, RandomSizes
from stoker.augment import CenterCrop, MixUp, Normalize, Pad, RandomHorizontalFlip, RandomResizedCrop, Resize
from stoker.errors import CheckpointError, ConfigError

CROP = [RandomResizedCrop(9), RandomHorizontalFlip()]
COLUMNS = {"columns": ("image", "row"), "transforms": CROP, "shuffle": True}


def test_an_epoch_has_the_images_of_a_loader_with_its_size(load: Callable[..., ImageLoader]) -> None:
    loader = load(sizes={0: 8, 1: (12, 16)}, **COLUMNS)
    assert loader.element_spec()[0].shape == (3, None, None)
    for size in (8, (12, 16), (12, 16)):
        epoch = loader.state_dict()["epoch"]
        alone = load(**{**COLUMNS, "transforms": [RandomResizedCrop(size), RandomHorizontalFlip()]})
        alone.set_epoch(epoch)
        for batch, expected in zip(loader, alone, strict=True):
            assert np.array_equal(batch.image, expected.image)
            assert batch.row.tolist() == expected.row.tolist()


def test_a_random_size_lasts_for_some_steps_and_each_occurs(load: Callable[..., ImageLoader]) -> None:
    loader = load(sizes=RandomSizes(8, 16, step=4, every=2), batch_size=2, **COLUMNS)
    for _ in range(2):
        sides = [batch.image.shape[2] for batch in loader]
        assert sides[::2] == [*sides[1::2], sides[-1]]
        assert set(sides) == {8, 12, 16}


def test_the_samples_of_a_batch_follow_its_size(load: Callable[..., ImageLoader]) -> None:
    loader = load(sizes={0: 8, 1: 16}, pixels_per_batch=1024, batch_size=None, **COLUMNS)
    assert "batches of 1024 pixels" in repr(loader)
    for size, steps in ((8, [16, 16, 16, 13]), (16, [4] * 15 + [1])):
        assert len(loader) == len(steps)
        shapes = [batch.image.shape for batch in loader]
        assert shapes == [(n, 3, size, size) for n in steps]
    assert len(loader) == 16
    assert not loader.has_equal_epochs


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
@pytest.mark.parametrize(("last_batch", "steps"), [("partial", 16), ("drop", 15), ("pad", 16)])
def test_last_batch_decides_the_end_of_an_epoch_of_pixels_per_batch(
    load: Callable[..., ImageLoader], last_batch: str, steps: int
) -> None:
    for rank in (0, 1):
        options = {"pixels_per_batch": 128, "batch_size": None, "last_batch": last_batch, **COLUMNS}
        loader = load(sizes={0: 8}, rank=rank, world_size=2, **options)
        counts = [len(batch.row) for batch in loader]
        assert counts[:15] == [2] * 15
        assert len(counts) == len(loader) == steps
        if steps == 16:
            assert counts[15] == (2 if last_batch == "pad" else 1 - rank)


def test_annotations_have_the_size_of_the_batch(
    pack_images: Callable[..., Path],
) -> None:
    folder = write_annotated(pack_images)
    options = {"columns": ("image", "boxes", "masks", "segmentation"), "sizes": {0: (30, 40), 1: (15, 20)}}
    with ImageLoader(folder, batch_size=7, transforms=[Resize((60, 80))], **options) as loader:
        epochs = [*loader, *loader]  # of one batch each
    for batch, (height, width) in zip(epochs, [(30, 40), (15, 20)], strict=True):
        assert batch.segmentation.shape == (7, height, width)
        assert {masks.shape[1:] for masks in batch.masks} == {(height, width)}
    for large, small in zip(epochs[0].boxes, epochs[1].boxes, strict=True):
        assert np.allclose(large, 2 * small)


def test_functions_and_mixing_get_the_size_of_the_batch(load: Callable[..., ImageLoader]) -> None:
    transforms = [*CROP, Normalize(), MixUp(), lambda images: images[:, :, ::2]]
    loader = load(**{**COLUMNS, "transforms": transforms, "columns": ("image",), "sizes": {0: 8, 1: (16, 8)}})
    assert loader.element_spec()[0].shape == (3, None, 8)
    assert next(iter(loader)).image.shape == (16, 3, 4, 8)
    loader.set_epoch(1)
    assert next(iter(loader)).image.shape == (16, 3, 8, 8)


def test_a_state_names_the_sizes_that_differ(load: Callable[..., ImageLoader]) -> None:
    state = load(sizes={0: 8, 1: 16}, **COLUMNS).state_dict()
    with pytest.raises(CheckpointError, match=r"sizes\.1 was None|sizes\.2"):
        load(sizes={0: 8, 2: 16}, **COLUMNS).load_state_dict(state)
    with pytest.raises(CheckpointError, match="sizes"):
        load(**{**COLUMNS, "transforms": [RandomResizedCrop(16), RandomHorizontalFlip()]}).load_state_dict(
            state
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": {1: 8}}, "must say the size of epoch 0"),
        ({"sizes": {0: (8, 8, 8)}}, "a size must be a positive integer or a pair"),
        ({"sizes": 8}, "sizes must be sizes by epoch, RandomSizes, AspectBuckets or Patches"),
        ({"sizes": {"first": 8}}, "an epoch in sizes must be an integer"),
        ({"sizes": {0: 8}, "pixels_per_batch": 100}, "takes batch_size or pixels_per_batch, found both"),
        ({"batch_size": None}, "takes batch_size or pixels_per_batch, found neither"),
        ({"batch_size": None, "pixels_per_batch": 100}, "pixels_per_batch goes with sizes"),
        ({"sizes": {0: 8}, "batch_size": None, "pixels_per_batch": 63}, "holds no image of 8 x 8"),
        (
            {"sizes": {0: 8, 1: 16}, "batch_size": None, "pixels_per_batch": 512, "steps_per_epoch": 3},
            "steps_per_epoch needs batches of a fixed number of samples",
        ),
        ({"sizes": {0: 8}, "transforms": {"a": CROP}}, "found named columns of images"),
        ({"sizes": {0: 8}, "transforms": [RandomHorizontalFlip()]}, "no crop or resize stands in the list"),
        ({"sizes": {0: 8}, "transforms": [CenterCrop(8), Pad(2)]}, "a transform after it changes that"),
        ({"sizes": RandomSizes(8, 16, 8), "engine": "dali", "device": "cpu"}, "sizes by step"),
    ],
)
def test_a_wrong_argument_is_refused(
    load: Callable[..., ImageLoader], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**{**COLUMNS, "columns": ("row",), **options})


def test_random_sizes_that_steps_do_not_reach_are_refused() -> None:
    with pytest.raises(ConfigError, match="steps of 32 do not lead from 320 to 600"):
        RandomSizes(320, 600)
