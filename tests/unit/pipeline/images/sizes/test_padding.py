"""Batches of images of different sizes: padded to the largest, or as a list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.annotations.annotated_scenes import bounding_box, write_annotated

from stoker import ImageLoader
from stoker.augment import (
    ColorJitter,
    MixUp,
    Normalize,
    Pad,
    RandomErasing,
    RandomHorizontalFlip,
    RandomRotation,
    RandomShortestSize,
    Resize,
)
from stoker.errors import CheckpointError, ConfigError

STEPS = [
    RandomShortestSize((12, 20), max_size=30),
    RandomHorizontalFlip(),
    ColorJitter(0.5, 0.5),
    RandomErasing(0.5, value="random"),
]
OPTIONS: dict[str, Any] = {
    "transforms": STEPS,
    "columns": ("image", "row"),
    "sizes": "padded",
    "shuffle": True,
    "batch_size": 8,
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("form", [{"layout": "NCHW"}, {"layout": "NHWC4", "dtype": "float16"}])
def test_a_padded_image_is_the_image_alone_and_zeros(
    load: Callable[..., ImageLoader], engine: str, form: dict[str, str]
) -> None:
    batch = next(iter(load(pad_to_multiple_of=16, engine=engine, **OPTIONS, **form)))
    assert batch._fields == ("image", "row", "image_size")
    first = 2 if form["layout"] == "NCHW" else 1
    sides = np.array(batch.image.shape[first : first + 2])
    assert (sides == -(-batch.image_size.max(axis=0) // 16) * 16).all()
    assert len(np.unique(batch.image_size, axis=0)) > 2
    alone = list(load(engine=engine, **{**OPTIONS, "batch_size": 1}, **form))
    for image, (height, width), single in zip(batch.image, batch.image_size.tolist(), alone, strict=False):
        content = (slice(None),) * (first - 1) + (slice(height), slice(width))
        assert np.array_equal(image[content], single.image[0])
        padding = image.copy()
        padding[content] = 0
        assert not padding.any()


def test_ragged_images_are_padded_images_without_their_padding(load: Callable[..., ImageLoader]) -> None:
    padded = next(iter(load(**OPTIONS)))
    loader = load(**{**OPTIONS, "sizes": "ragged"})
    ragged = next(iter(loader))
    assert ragged._fields == ("image", "row")
    assert loader.element_spec()[0].ragged
    for image, whole, (height, width) in zip(ragged.image, padded.image, padded.image_size, strict=True):
        assert np.array_equal(image, whole[:, :height, :width])


@pytest.mark.parametrize("sizes", ["padded", "ragged"])
def test_annotations_follow_images_of_different_sizes(pack_images: Callable[..., Path], sizes: str) -> None:
    columns = ("image", "boxes", "masks", "segmentation", "keypoints", "image_size", "to_source")
    transforms = [RandomShortestSize((30, 60, 120)), RandomHorizontalFlip()]
    options = {"columns": columns, "batch_size": 7, "transforms": transforms, "sizes": sizes}
    with ImageLoader(write_annotated(pack_images), **options) as loader:
        batch = next(iter(loader))
    assert len(np.unique(batch.image_size)) > 2
    for i, (height, width) in enumerate(batch.image_size.tolist()):
        image, masks, classes = batch.image[i], batch.masks[i], batch.segmentation[i]
        if sizes == "ragged":
            assert masks.shape[1:] == classes.shape == image.shape[1:] == (height, width)
        lit = image[0, :height, :width] > 100  # the first object is a bright rectangle
        box = bounding_box(lit)
        assert np.abs(batch.boxes[i][0] - box).max() <= 1.5
        assert (masks[0, :height, :width] == lit).mean() > 0.97
        assert ((classes[:height, :width] == 1) == lit).mean() > 0.97
        assert (classes[height:] == 255).all()
        points = batch.keypoints[i][0, :, :2]
        assert ((points > box[:2]) & (points < box[2:])).all()
        corner = batch.to_source[i] @ [*batch.boxes[i][0, :2], 1]
        assert -1 <= corner[0] <= 80
        assert -1 <= corner[1] <= 60


def test_an_empty_last_batch_has_arrays_without_images(load: Callable[..., ImageLoader]) -> None:
    with pytest.warns(UserWarning, match="an empty last batch"):
        *_, last = load(rank=1, world_size=2, **{**OPTIONS, "batch_size": 6})
    assert last.image.shape[:2] == (0, 3)
    assert last.image_size.shape == (0, 2)


def test_a_state_refuses_another_padding(load: Callable[..., ImageLoader]) -> None:
    state = load(pad_to_multiple_of=32, **OPTIONS).state_dict()
    with pytest.raises(CheckpointError, match=r"sizes\.padded was 32 and is 16"):
        load(pad_to_multiple_of=16, **OPTIONS).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": "large"}, "sizes must be 'padded', 'ragged', sizes by epoch, RandomSizes"),
        ({"sizes": "ragged", "pad_to_multiple_of": 8}, "pad_to_multiple_of=8 goes with sizes='padded'"),
        ({"pad_to_multiple_of": 0}, "pad_to_multiple_of must be at least 1"),
        ({"transforms": [*STEPS[:2], Normalize(), MixUp()]}, "MixUp mixes samples of a batch, which images"),
        ({"transforms": [*STEPS[:2], lambda images: images]}, "is a function of batches, which images of"),
        ({"transforms": [Resize((9, 9)), RandomRotation(9)]}, "RandomRotation warps images"),
        ({"transforms": [Pad(2, padding_mode="edge")]}, "Pad continues images beyond their border"),
        ({"transforms": {"a": STEPS}}, "found named columns of images"),
        ({"engine": "dali", "device": "cpu"}, "engine='dali' does not execute .* image_size"),
        ({"batch_size": None, "pixels_per_batch": 999}, "pixels_per_batch goes with sizes"),
    ],
)
def test_a_wrong_argument_is_refused(
    load: Callable[..., ImageLoader], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**{**OPTIONS, **options})
