"""Annotations under transforms that mix the samples of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.annotations.annotated_scenes import COLUMNS, N, bounding_box, first, load

from stoker.augment import CutMix, MixUp, Mosaic, Resize
from stoker.errors import ConfigError


def test_mosaic_mixes_all_columns_of_annotations(annotated: Path) -> None:
    batch = first(annotated, transforms=[Resize((60, 80)), Mosaic()], columns=(*COLUMNS, "label"))
    assert batch.label.sum(axis=1).max() > 0
    checked = 0
    for i in range(N):
        bright = batch.image[i, 0] > 100
        assert np.count_nonzero(bright != (batch.segmentation[i] == 1)) <= 2 * sum(bright.shape)
        objects = zip(batch.boxes[i], batch.object_id[i], batch.masks[i], batch.area[i], strict=True)
        for box, number, mask, area in objects:
            assert area == pytest.approx(np.prod(box[2:] - box[:2]), rel=0.02)
            if number % 100 == 0 and min(box[2:] - box[:2]) > 8:
                left, top, right, bottom = np.rint(box).astype(int)
                assert bright[top + 2 : bottom - 2, left + 2 : right - 2].all()
                assert np.abs(box - bounding_box(mask > 0)).max() <= 1
                checked += 1
    assert checked > N


def test_objects_that_a_mosaic_cuts_off_or_makes_too_small_are_dropped(annotated: Path) -> None:
    mosaic = {"transforms": [Resize((60, 80)), Mosaic()], "columns": ("boxes", "object_id")}
    plain = first(annotated, **mosaic)
    boxes, ids = np.concatenate(plain.boxes), np.concatenate(plain.object_id)
    large = (boxes[:, 2:] - boxes[:, :2] >= 16).all(axis=1)
    assert 0 < large.sum() < len(large)
    assert np.concatenate(first(annotated, **mosaic, min_size=16).object_id).tolist() == ids[large].tolist()
    seen = np.concatenate(first(annotated, **mosaic, min_visible=0.9).object_id)
    assert 0 < len(seen) < len(ids)


def test_multi_hot_labels_are_mixed(annotated: Path) -> None:
    options = {"columns": ("image", "label")}
    plain = first(annotated, **options).label
    mixed = first(annotated, **options, transforms=[Resize((30, 40)), MixUp()]).label
    share = 1 - mixed[1, 1:]
    assert np.allclose(mixed[1], (1 - share[0]) * plain[1] + share[0] * plain[0])


@pytest.mark.parametrize(
    ("transform", "column"),
    [(MixUp(), "boxes"), (CutMix(), "masks"), (MixUp(), "segmentation"), (CutMix(), "keypoints")],
)
def test_a_column_that_a_transform_cannot_mix_is_refused(
    annotated: Path, transform: Any, column: str
) -> None:
    with pytest.raises(ConfigError, match=f"cannot mix the column '{column}'"):
        load(annotated, columns=("image", column), transforms=[Resize((30, 40)), transform])
