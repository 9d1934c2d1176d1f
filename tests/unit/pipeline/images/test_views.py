"""Views of a sample: a mapping of transforms makes a column for each name; each view draws independently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.annotations import N as SCENES

from stoker import ImageLoader
from stoker.augment import BlockwiseMask, RandomHorizontalFlip, RandomMask, RandomResizedCrop, Resize, Views
from stoker.pipeline.execution.pipeline import ColumnSpec

LARGE = [RandomResizedCrop(16, scale=(0.4, 1)), RandomHorizontalFlip()]
SMALL = [RandomResizedCrop((8, 12), scale=(0.05, 0.3))]
VIEWS = {
    "large": Views(2, LARGE, mask=BlockwiseMask(2, p=1.0)),
    "small": Views(3, SMALL),
    "whole": [Resize((9, 7))],
}


@pytest.fixture
def load(thumbnails: Path, open_loader: Callable[..., ImageLoader]) -> Callable[..., ImageLoader]:
    """``load(dataset, **options)``: a loader with views of the thumbnails, or of another dataset."""
    arguments = {"batch_size": 6, "num_threads": 2, "transforms": VIEWS}
    return lambda dataset=thumbnails, **options: open_loader(dataset, **{**arguments, **options})


def test_each_name_makes_a_column(load: Callable[..., ImageLoader]) -> None:
    loader = load(shuffle=True)
    batch = next(iter(loader))
    assert batch._fields == ("large", "small", "whole", "large_mask", "label")
    shapes = [(2, 6, 3, 16, 16), (3, 6, 3, 8, 12), (6, 3, 9, 7), (2, 6, 8, 8), (6,)]
    assert [column.shape for column in batch] == shapes
    assert loader.element_spec()[0] == ColumnSpec("large", "uint8", (3, 16, 16), views=2)
    assert loader.element_spec()[2] == ColumnSpec("whole", "uint8", (3, 9, 7))
    assert loader.element_spec()[3] == ColumnSpec("large_mask", "bool", (8, 8), views=2)
    assert [batch.large[0].shape[0], batch.large_mask.dtype] == [6, np.bool_]
    assert not np.array_equal(batch.large[0], batch.large[1])
    assert not np.array_equal(batch.large_mask[0], batch.large_mask[1])


def test_further_views_change_no_other_view(load: Callable[..., ImageLoader]) -> None:
    (few,) = load(transforms={"small": Views(2, SMALL)}, batch_size=61)
    more = {"first": LARGE, "small": Views(4, SMALL), "last": [Resize((9, 7))]}
    (native,), (slow,) = (
        load(transforms=more, batch_size=61, engine=name) for name in ("native", "reference")
    )
    # One decoding for all views gives the pixels of a decoding for each.
    assert np.array_equal(few.small, native.small[:2])
    assert np.abs(few.small.astype(int) - slow.small[:2].astype(int)).max() <= 1


def test_a_list_and_a_single_view_draw_the_same(load: Callable[..., ImageLoader]) -> None:
    plain = next(iter(load(transforms={"a": LARGE})))
    views = next(iter(load(transforms={"a": Views(1, LARGE)})))
    masked = next(iter(load(transforms={"a": Views(None, LARGE, mask=RandomMask(4))})))
    other = next(iter(load(transforms={"b": LARGE})))
    assert np.array_equal(plain.a, views.a[0])
    assert np.array_equal(plain.a, masked.a)
    assert masked.a_mask.shape == (6, 4, 4)
    assert not np.array_equal(plain.a, other.b)


def test_padded_objects_have_an_axis_of_views(load: Callable[..., ImageLoader], annotated: Path) -> None:
    options = {
        "batch_size": SCENES,
        "columns": ("a", "a_boxes"),
        "transforms": {"a": Views(2, [Resize((30, 40))])},
    }
    ragged, padded = (next(iter(load(annotated, objects=form, **options))) for form in ("ragged", "padded"))
    spec = ColumnSpec("a_boxes", "float32", (None, 4), ragged=True, views=2)
    assert load(annotated, objects="ragged", **options).element_spec()[1] == spec
    assert padded._fields == ("a", "a_boxes", "a_count")
    assert padded.a_boxes.shape == (2, SCENES, 3, 4)
    assert padded.a_count.tolist() == [[len(boxes) for boxes in view] for view in ragged.a_boxes]
    for view in range(2):
        for i, boxes in enumerate(ragged.a_boxes[view]):
            assert np.array_equal(padded.a_boxes[view, i, : len(boxes)], boxes)


@pytest.mark.filterwarnings("ignore:a bad sample was")
@pytest.mark.parametrize("engine", ["native", "reference", "dali"])
def test_bad_samples_are_bad_in_all_views(
    load: Callable[..., ImageLoader],
    make_dataset: Callable[..., Path],
    make_jpeg: Callable[..., bytes],
    engine: str,
) -> None:
    if engine == "dali":
        pytest.importorskip("nvidia.dali")
    payloads = [make_jpeg(i) for i in range(4)]
    payloads[1] = b"not a JPEG"
    views = {"a": Views(3, SMALL, mask=RandomMask(4)), "b": LARGE}
    options = {"transforms": views, "columns": ("a", "a_mask", "b", "row"), "batch_size": 4, "engine": engine}
    folder = make_dataset(payloads=payloads)
    (skipped,) = load(folder, on_error="skip", **options)
    (replaced,) = load(folder, on_error="replace", **options)
    assert [column.shape[:2] for column in skipped[:2]] == [(3, 3), (3, 3)]
    assert skipped.b.shape[0] == 3
    assert skipped.row.tolist() == [0, 2, 3]
    assert np.array_equal(replaced.a[:, [0, 2, 3]], skipped.a)
    assert np.array_equal(replaced.a[:, 1], skipped.a[:, 1])
    assert np.array_equal(replaced.a_mask[:, 1], skipped.a_mask[:, 1])
