"""Views on any number of ranks, after any stop: the same images for each sample, in the same order."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker import ImageLoader
from stoker.augment import BlockwiseMask, RandomHorizontalFlip, RandomResizedCrop, Views

SMALL = [RandomResizedCrop(8, scale=(0.05, 0.3)), RandomHorizontalFlip()]


def samples(batch: Any) -> list[tuple[int, str]]:
    """Row, and digest of all views, of each sample."""
    views = [np.moveaxis(column, 1, 0) for column in (batch.a, batch.a_mask, batch.b)]
    parts = zip(batch.row.tolist(), *views, strict=True)
    return [
        (row, hashlib.sha256(b"".join(map(np.ascontiguousarray, images))).hexdigest())
        for row, *images in parts
    ]


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
@settings(max_examples=8)
@given(st.data())
def test_views_are_the_same_after_any_stop_on_any_number_of_ranks(
    thumbnails: Path, data: st.DataObject
) -> None:
    counts = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 4)))
    ranks, batch_size = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    transforms = {
        "a": Views(counts[0], [RandomResizedCrop(16)], mask=BlockwiseMask(4)),
        "b": Views(counts[1], SMALL),
    }
    columns = ("a", "a_mask", "b", "row")
    options: dict[str, Any] = {"shuffle": True, "seed": 5, "transforms": transforms, "columns": columns}
    with ImageLoader(thumbnails, **image_arguments(batch_size=60, **options)) as loader:
        whole = samples(next(iter(loader)))
    stop = data.draw(st.integers(0, 60 // (ranks * batch_size)))
    seen: list[tuple[int, str]] = []
    state: dict[str, Any] = {}
    for rank in range(ranks):
        with ImageLoader(
            thumbnails, **image_arguments(batch_size=batch_size, rank=rank, world_size=ranks, **options)
        ) as loader:
            state = loader.state_dict()
            for step, batch in enumerate(loader):
                if step == stop:
                    break
                shapes = [(counts[0], batch_size, 3, 16, 16), (counts[0], batch_size, 4, 4)]
                assert [batch.a.shape, batch.a_mask.shape] == shapes
                seen += samples(batch)
                state = loader.state_dict()
    assert sorted(seen) == sorted(whole[: len(seen)])
    with ImageLoader(thumbnails, **image_arguments(batch_size=7, **options)) as loader:
        loader.load_state_dict(state)
        rest = samples(next(iter(loader))) if len(seen) < 54 else []
    assert rest == whole[len(seen) : len(seen) + len(rest)]


@settings(max_examples=10)
@given(data=st.data())
def test_boxes_masks_and_keypoints_lie_on_what_each_view_shows(annotated: Path, data: st.DataObject) -> None:
    low = data.draw(st.sampled_from([0.2, 0.5, 1.0]))
    moved = [RandomResizedCrop(data.draw(st.integers(24, 48)), scale=(low, 1.0)), RandomHorizontalFlip(1)]
    count, engine = data.draw(st.integers(1, 3)), data.draw(st.sampled_from(["native", "reference"]))
    names = ("boxes", "masks", "object_id", "segmentation", "keypoints")
    loader = ImageLoader(
        annotated,
        batch_size=data.draw(st.integers(1, 7)),
        shuffle=True,
        seed=data.draw(st.integers(0, 99)),
        engine=engine,
        transforms={"a": Views(count, moved), "b": [RandomResizedCrop(40), *SMALL[1:]]},
        columns=("a", "b", *(f"{column}_{name}" for column in "ab" for name in names)),
    )
    for batch in loader:
        for view in range(count):
            _check_view(batch.a[view], *(getattr(batch, f"a_{name}")[view] for name in names))
        _check_view(batch.b, *(getattr(batch, f"b_{name}") for name in names))


def _check_view(images: Any, boxes: Any, masks: Any, ids: Any, segmentation: Any, keypoints: Any) -> None:
    """The first object of a scene is the bright rectangle of its image."""
    columns = (images, boxes, masks, ids, segmentation, keypoints)
    for image, image_boxes, image_masks, numbers, classes, points in zip(*columns, strict=True):
        bright = image[0] > 100
        assert np.mean((classes > 0) != bright) < 0.1
        if 0 not in numbers % 100:
            assert bright.mean() < 0.02
            continue
        first = int(np.flatnonzero(numbers % 100 == 0)[0])
        assert np.mean((image_masks[first] > 0) != bright) < 0.1
        rows, seen = (np.flatnonzero(bright.any(axis)) for axis in (1, 0))
        if len(rows) and len(seen):
            edges = [seen[0], rows[0], seen[-1] + 1, rows[-1] + 1]
            np.testing.assert_allclose(image_boxes[first], edges, atol=1.5)
        for x, y, visible in points[first]:
            row, column = (min(int(at), len(image[0]) - 1) for at in (y, x))
            assert not visible or bright[row, column]
