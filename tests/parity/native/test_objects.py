"""Boxes, keypoints and lists of a batch in C++ against NumPy, digit for digit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.augment import (
    CenterCrop,
    ImageParams,
    RandomAffine,
    RandomHorizontalFlip,
    RandomIoUCrop,
    RandomResizedCrop,
    RandomVerticalFlip,
    RandomZoomOut,
    Resize,
    compile_image,
)
from stoker.augment.geometry.annotations import transform_boxes, transform_keypoints
from stoker.augment.geometry.boxes import Objects
from stoker.formats.dataset.columns import ListColumn, take_lists
from stoker.pipeline.images.objects import output_boxes, output_keypoints

N = 12
SWAP = (0, 2, 1, 4, 3)
CHAINS = {
    "flips": [RandomHorizontalFlip(), RandomVerticalFlip(), Resize((64, 90))],
    "crop": [RandomResizedCrop((70, 80), scale=(0.05, 0.9)), RandomHorizontalFlip()],
    "padding": [CenterCrop((130, 500))],
    "boxes decide": [RandomZoomOut(), RandomIoUCrop(), RandomHorizontalFlip(), Resize((50, 50))],
    "nothing is left": [CenterCrop(40), RandomResizedCrop(10, scale=(0.01, 0.01))],
    "warped": [Resize((90, 120)), RandomAffine(50, (0.2, 0.2))],
}


def scene(chain: list[Any], seed: int) -> tuple[ImageParams, npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Boxes within and beyond their images, some without an area, and the parameters of their images."""
    rng = np.random.default_rng(seed)
    height, width = rng.integers(40, 300, (2, N))
    owner = np.sort(rng.integers(0, N, 80))
    low = rng.uniform(-20, 250, (80, 2))
    boxes = np.concatenate((low, low + rng.uniform(-5, 200, (80, 2))), axis=1).astype(np.float32)
    boxes[::9] = np.rint(boxes[::9])
    boxes[::17] = 0
    objects = Objects(boxes.astype(np.float64), owner)
    return compile_image(chain).draw(height, width, np.arange(N), seed, 0, objects=objects), boxes, owner


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize(
    "rules", [{}, {"min_visible": 0.3}, {"min_size": 4.5}, {"min_visible": 1.0, "min_size": 1}]
)
def test_boxes_equal_the_reference(chain: list[Any], rules: dict[str, float]) -> None:
    for seed in range(5):
        params, boxes, owner = scene(chain, seed)
        found, kept = output_boxes(params, boxes, owner, **rules)
        expected, keep = transform_boxes(params, boxes, owner, **rules)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(kept, keep)
        assert (found.dtype, kept.dtype) == (np.float64, np.bool_)


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("swap", [(), SWAP])
def test_keypoints_equal_the_reference(chain: list[Any], swap: tuple[int, ...]) -> None:
    for seed in range(5):
        params, _, owner = scene(chain, seed)
        rng = np.random.default_rng(seed)
        points = np.concatenate(
            (rng.integers(-20, 600, (80, 5, 2)) / 2, rng.integers(0, 3, (80, 5, 1))), axis=2
        ).astype(np.float32)
        found = output_keypoints(params, points, owner, swap)
        np.testing.assert_array_equal(found, transform_keypoints(params, points, owner, swap or None))
        assert found.dtype == np.float64


def test_objects_of_an_image_of_padding_alone_are_hidden() -> None:
    params, boxes, owner = scene(CHAINS["flips"], 0)
    params = replace(params, empty=np.arange(len(params)) % 2 == 0)
    _, kept = output_boxes(params, boxes, owner)
    np.testing.assert_array_equal(kept, transform_boxes(params, boxes, owner)[1])
    assert not kept[owner % 2 == 0].any()
    assert kept.any()
    points = np.full((len(owner), 1, 3), 2, np.float32)
    found = output_keypoints(params, points, owner, ())
    np.testing.assert_array_equal(found, transform_keypoints(params, points, owner))
    assert found.any(axis=(1, 2)).tolist() == (owner % 2 == 1).tolist()


def test_batches_without_objects_are_empty() -> None:
    params, boxes, owner = scene(CHAINS["flips"], 0)
    found, kept = output_boxes(params, boxes[:0], owner[:0])
    assert (found.shape, kept.shape) == ((0, 4), (0,))
    assert output_keypoints(params, np.zeros((0, 5, 3), np.float32), owner[:0], SWAP).shape == (0, 5, 3)


@given(data=st.data())
def test_lists_are_gathered_in_order(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
    rows = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=8))
    columns = {}
    for name, each, dtype in (("a", 1, "int64"), ("b", 1, "uint8"), ("c", 4, "float32"), ("d", 3, "float16")):
        values = np.arange(each * sum(counts)).astype(dtype)
        values.flags.writeable = False  # as those of an index
        columns[name] = ListColumn.of_counts(each * np.array(counts), values)
    taken = take_lists(columns, np.array(rows, np.int64))
    for name, column in columns.items():
        lists = [column.values[column.starts[row] : column.starts[row + 1]] for row in rows]
        assert taken[name].values.tolist() == [value for part in lists for value in part.tolist()]
        assert taken[name].counts.tolist() == [len(part) for part in lists]
        assert (taken[name].values.dtype, taken[name].starts.dtype) == (column.values.dtype, np.int64)
        assert taken[name].values.flags.writeable
    assert taken["a"].starts is taken["b"].starts


@pytest.mark.parametrize(
    "starts", [[0, 2, 6], [0, -1, 5], [2, 1, 5], [-1, 2, 5], [0, 2**62, 5], [-(2**63), 2**63 - 1, 5]]
)
def test_lists_outside_their_column_are_refused(starts: list[int]) -> None:
    with pytest.raises(ValueError, match="indices of the values"):
        ListColumn(np.array(starts), np.arange(5)).take([0, 1])


@pytest.mark.parametrize("row", [2, -1, -(2**63), 2**63 - 1])
def test_rows_outside_a_column_are_refused(row: int) -> None:
    column = ListColumn(np.array([0, 2, 5]), np.arange(5))
    with pytest.raises(IndexError, match="row"):
        column.take([row])
    with pytest.raises(IndexError, match="row"):
        ListColumn(np.zeros(0, np.int64), np.arange(5)).take([0])
