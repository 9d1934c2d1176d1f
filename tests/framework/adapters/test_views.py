"""Views in the arrays of each framework: an axis before the batch, and tuples of ragged columns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import N
from helpers.loaders import image_arguments

from stoker import ImageLoader
from stoker.augment import RandomMask, RandomResizedCrop, Resize, Views
from stoker.pipeline import adapters
from stoker.pipeline.engines.registry import BatchPlacement

VIEWS = {"a": Views(2, [RandomResizedCrop((16, 12))], mask=RandomMask(4)), "b": [Resize((8, 8))]}
COLUMNS = ("a", "a_mask", "a_boxes", "b", "b_boxes")


@pytest.mark.parametrize("output", ["torch", "tensorflow", "jax"])
def test_views_are_those_of_numpy(annotated: Path, output: str) -> None:
    pytest.importorskip(output)
    options = {"batch_size": N, "transforms": VIEWS, "columns": COLUMNS}
    with (
        ImageLoader(annotated, **image_arguments(**options)) as loader,
        ImageLoader(annotated, **image_arguments(output=output, **options)) as other,
    ):
        expected, found = next(iter(loader)), next(iter(other))
    for name in ("a", "a_mask", "b"):
        assert np.array_equal(getattr(expected, name), np.asarray(getattr(found, name)))
    assert len(found.a_boxes) == 2
    columns = zip((*expected.a_boxes, expected.b_boxes), (*found.a_boxes, found.b_boxes), strict=True)
    for of_numpy, of_framework in columns:
        assert len(of_numpy) == N
        for i, boxes in enumerate(of_numpy):
            assert np.array_equal(boxes, np.asarray(of_framework[i]))


@pytest.mark.parametrize("output", ["numpy", "torch", "tensorflow", "jax"])
def test_an_adapter_adds_the_axis_of_views(output: str) -> None:
    pytest.importorskip(output)
    adapter = adapters.load(adapters.framework_of(output), BatchPlacement(None, pin_memory=False))
    images = np.arange(2 * 3 * 4, dtype=np.float32).reshape(6, 1, 2, 2)
    split = adapter.views(adapter.images(images.copy(), "float32"), 2)
    assert np.array_equal(np.asarray(split), images.reshape(2, 3, 1, 2, 2))


def test_the_tf_data_view_has_all_columns(annotated: Path) -> None:
    pytest.importorskip("tensorflow")
    from stoker.pipeline.adapters.tensorflow import tf_dataset

    options = {"batch_size": N, "transforms": VIEWS, "columns": COLUMNS, "output": "tensorflow"}
    with ImageLoader(annotated, **image_arguments(**options)) as loader:
        ((a, masks, a_boxes, b, b_boxes),) = tf_dataset(loader)
    assert [a.shape, masks.shape, b.shape] == [(2, N, 3, 16, 12), (2, N, 4, 3), (N, 3, 8, 8)]
    assert [boxes.shape[0] for boxes in (*a_boxes, b_boxes)] == [N, N, N]


def test_a_global_batch_of_jax_divides_the_samples_of_views(annotated: Path) -> None:
    jax = pytest.importorskip("jax")
    from stoker.pipeline.adapters.jax import global_batch

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "data")
    make = partial(jax.sharding.NamedSharding, mesh)
    of_views, of_samples = (make(jax.sharding.PartitionSpec(*axes)) for axes in ((None, "data"), ("data",)))
    options: dict[str, Any] = {"batch_size": N, "transforms": VIEWS, "columns": ("a", "b"), "output": "jax"}
    with ImageLoader(annotated, **image_arguments(**options)) as loader:
        batch = global_batch(next(iter(loader)), {"a": of_views, "b": of_samples})
    assert batch.a.sharding == of_views
    assert [batch.a.shape, batch.b.shape] == [(2, N, 3, 16, 12), (N, 3, 8, 8)]
