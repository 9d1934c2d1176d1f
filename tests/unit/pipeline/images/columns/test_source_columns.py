"""The columns ``to_source`` and ``source_size``: the way back to the stored images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.data.annotations.annotated_scenes import HEIGHT, WIDTH, N, write_annotated

import stoker
from stoker import ImageLoader
from stoker.augment import Mosaic, RandomHorizontalFlip, RandomResizedCrop, RandomRotation, Views, to_source
from stoker.errors import ConfigError
from stoker.pipeline.execution.batch import ColumnSpec

UPRIGHT = [RandomResizedCrop(40, scale=(0.3, 1)), RandomHorizontalFlip()]


def test_boxes_of_a_batch_lead_back_to_their_sources(pack_images: Callable[..., Path]) -> None:
    dataset = write_annotated(pack_images)
    options = {"batch_size": N, "transforms": UPRIGHT, "min_visible": 1, "shuffle": True}
    options["columns"] = ("image", "boxes", "row", "to_source", "source_size")
    whole = stoker.open(dataset).annotations(range(N))
    for engine in ("native", "reference"):
        loader = ImageLoader(dataset, engine=engine, **options)
        assert loader.element_spec()[3:] == (
            ColumnSpec("to_source", "float64", (3, 3)),
            ColumnSpec("source_size", "int64", (2,)),
        )
        (batch,) = loader
        assert batch.to_source.dtype == np.float64
        assert batch.source_size.tolist() == [[HEIGHT, WIDTH]] * N
        checked = 0
        for row, boxes, matrix in zip(batch.row, batch.boxes, batch.to_source, strict=True):
            stored = whole.boxes[whole.owner == row]
            for box in to_source(boxes, matrix):
                assert np.abs(stored - box).max(axis=1).min() < 1e-4
                checked += 1
        assert checked > N / 2


def test_each_view_has_a_matrix_to_its_source(pack_images: Callable[..., Path]) -> None:
    dataset = write_annotated(pack_images)
    transforms = {"large": Views(2, UPRIGHT), "turned": [RandomResizedCrop(30), RandomRotation(20)]}
    columns = ("large", "large_to_source", "turned_to_source", "source_size")
    with ImageLoader(dataset, batch_size=3, transforms=transforms, columns=columns) as loader:
        batch = next(iter(loader))
        spec = loader.element_spec()
    assert batch.large_to_source.shape == (2, 3, 3, 3)
    assert spec[1] == ColumnSpec("large_to_source", "float64", (3, 3), views=2)
    assert batch.turned_to_source.shape == (3, 3, 3)
    assert not np.array_equal(batch.large_to_source[0], batch.large_to_source[1])


def test_a_sample_that_replaces_a_bad_one_keeps_its_matrix(
    make_dataset: Callable[..., Path], make_jpeg: Callable[..., bytes]
) -> None:
    payloads = [make_jpeg(0), b"no image", make_jpeg(1), make_jpeg(2)]
    broken = make_dataset("tfrecord", payloads, name="broken")
    options = {"batch_size": 4, "transforms": UPRIGHT, "columns": ("row", "to_source", "source_size")}
    loader = ImageLoader(broken, on_error="replace", **options)
    with pytest.warns(match="a bad sample was replaced"):
        (batch,) = loader
    assert batch.row.tolist() == [0, 2, 2, 3]
    assert np.array_equal(batch.to_source[1], batch.to_source[2])
    assert not np.array_equal(batch.to_source[0], batch.to_source[3])


def test_to_source_is_refused_beside_images_of_several_sources(pack_images: Callable[..., Path]) -> None:
    dataset = write_annotated(pack_images)
    with pytest.raises(ConfigError, match="Mosaic cannot mix the column 'to_source'"):
        ImageLoader(dataset, batch_size=4, transforms=[*UPRIGHT, Mosaic()], columns=("image", "to_source"))
