"""Columns of objects in each framework: lists of its arrays, a RaggedTensor, or padded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments

from stoker import ImageLoader
from stoker.augment import RandomHorizontalFlip, RandomResizedCrop
from stoker.formats.dataset.annotations import Annotations, to_columns
from stoker.formats.open import open as open_dataset

COLUMNS = ("image", "boxes", "box_labels", "crowd", "masks", "row", "key")


@pytest.fixture(scope="module")
def scenes(pack_images: Callable[..., Path], thumbnails: Path) -> Path:
    """Twelve thumbnails with up to three objects each."""
    dataset = open_dataset(thumbnails)
    parts = []
    for i in range(12):
        m = i % 4
        boxes = np.array([[2, 3, 20 + k, 18 + k] for k in range(m)], np.float32).reshape(m, 4)
        squares = [[boxes[k, [[0, 1], [2, 1], [2, 3], [0, 3]]]] for k in range(m)]
        numbers = np.arange(m, dtype=np.int64)
        parts.append(
            Annotations(numbers * 0, boxes, numbers, numbers > 1, boxes[:, 0], numbers, polygons=squares)
        )
    return pack_images([dataset.read(i) for i in range(12)], **to_columns(parts))


def load(folder: Path, output: str, **options: Any) -> ImageLoader:
    transforms = [RandomResizedCrop(24), RandomHorizontalFlip()]
    arguments = {"batch_size": 8, "columns": COLUMNS, "num_threads": 1, **options}
    return ImageLoader(folder, **image_arguments(transforms=transforms, output=output, **arguments))


def first(folder: Path, output: str, **options: Any) -> Any:
    with load(folder, output, **options) as loader:
        return next(iter(loader))


@pytest.mark.parametrize("output", ["torch", "jax"])
def test_objects_are_lists_of_arrays_of_the_framework(scenes: Path, output: str) -> None:
    framework = pytest.importorskip(output)
    kind = framework.Tensor if output == "torch" else framework.Array
    expected, batch = first(scenes, "numpy"), first(scenes, output)
    for name in ("boxes", "box_labels", "crowd", "masks"):
        column = getattr(batch, name)
        assert isinstance(column, list)
        assert all(isinstance(part, kind) for part in column)
        for part, other in zip(column, getattr(expected, name), strict=True):
            assert np.array_equal(np.asarray(part), other)


@pytest.mark.parametrize("output", ["torch", "jax", "tensorflow"])
def test_padded_objects_are_arrays_of_the_framework(scenes: Path, output: str) -> None:
    pytest.importorskip(output)
    expected, batch = (first(scenes, name, objects="padded") for name in ("numpy", output))
    for name in ("boxes", "box_labels", "crowd", "masks", "count"):
        assert np.array_equal(np.asarray(getattr(batch, name)), getattr(expected, name)), name


def test_objects_are_ragged_tensors_in_tf_data_too(scenes: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    from stoker.pipeline.adapters.tensorflow import tf_dataset

    expected = first(scenes, "numpy")
    with load(scenes, "tensorflow") as loader:
        batch = next(iter(tf_dataset(loader)))
    names = dict(zip(COLUMNS, batch, strict=True))
    for name in ("boxes", "box_labels", "crowd", "masks"):
        assert isinstance(names[name], tf.RaggedTensor)
        for i, part in enumerate(getattr(expected, name)):
            assert np.array_equal(names[name][i].numpy(), part)
    assert names["key"].numpy().tolist() == [key.encode() for key in expected.key]


@pytest.mark.parametrize("engine", ["dali", "reference"])
def test_other_engines_have_the_same_objects(scenes: Path, engine: str) -> None:
    if engine == "dali":
        pytest.importorskip("nvidia.dali")
    expected, batch = (first(scenes, "numpy"), first(scenes, "numpy", engine=engine))
    for name in ("boxes", "masks"):
        pairs = zip(getattr(batch, name), getattr(expected, name), strict=True)
        assert all(np.array_equal(part, other) for part, other in pairs)
