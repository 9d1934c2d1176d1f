"""Images of several samples on every engine: pixels, objects, ranks, resuming and bad samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import N, bounding_box
from helpers.images import encode
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader
from stoker.augment import (
    ColorJitter,
    CopyPaste,
    DetectionMixUp,
    GaussianBlur,
    Mosaic,
    RandomAffine,
    RandomErasing,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    ToDtype,
)
from stoker.errors import ConfigError, SampleError

FLIPS = [RandomHorizontalFlip(), RandomVerticalFlip()]
LEVELS = ToDtype("float32", scale=False)
LISTS: dict[str, list[Any]] = {
    "mosaic": [Mosaic(96), *FLIPS],
    "some mosaics": [Mosaic((64, 96), p=0.5, scale=(0.2, 3)), *FLIPS, LEVELS],
    "turned": [Mosaic(96), RandomAffine(40, shear=10), *FLIPS],
    "turned by a right angle": [Mosaic(96), RandomRotation((90, 90))],
    "perspective": [Mosaic(96), RandomPerspective(0.4, p=1)],
    "cropped": [Mosaic(96), RandomResizedCrop(80, scale=(0.3, 1)), *FLIPS],
    "mixed": [Mosaic(96, p=0.7), DetectionMixUp(p=0.6), ColorJitter(0.4, 0.4, 0.4, 0.1), *FLIPS],
    "mixed without mosaics": [Resize((60, 80)), RandomHorizontalFlip(), DetectionMixUp(8.0)],
    "of a buffer": [Mosaic(96, buffer=4), *FLIPS],
    "steps": [Mosaic(96), GaussianBlur(3), ColorJitter(contrast=0.5), RandomErasing(1.0), LEVELS],
}


def batches(source: Any, **options: Any) -> list[Any]:
    options = {
        "batch_size": 4,
        "seed": 3,
        "shuffle": True,
        "num_threads": 2,
        "columns": ("image", "row"),
        **options,
    }
    with ImageLoader(source, **image_arguments(**options)) as loader:
        return list(loader)


@pytest.mark.parametrize("name", LISTS)
def test_images_of_several_samples_are_those_of_the_reference(thumbnails: Path, name: str) -> None:
    source = stoker.open(thumbnails).select(range(12))
    options = {"transforms": LISTS[name]}
    native = batches(source, engine="native", exact=True, **options)
    reference = batches(source, engine="reference", **options)
    native_pixels, pixels = (
        np.concatenate([batch.image for batch in batches]) for batches in (native, reference)
    )
    difference = np.abs(native_pixels.astype(float) - pixels.astype(float))
    # A pixel on the edge of a rotated tile may belong to either side.
    assert (difference > 3).mean() < (0.002 if "turned" in name or name == "perspective" else 1e-5)
    assert difference.mean() < 0.1
    assert len({image.tobytes() for image in pixels}) == len(pixels)


@pytest.mark.parametrize("buffer", [None, 20])
def test_mosaics_do_not_depend_on_batches_ranks_and_resuming(thumbnails: Path, buffer: int | None) -> None:
    transforms = [Mosaic(32, buffer=buffer), DetectionMixUp(p=0.5), RandomHorizontalFlip()]
    whole = {
        row: image
        for batch in batches(thumbnails, transforms=transforms)
        for row, image in zip(batch.row, batch.image, strict=True)
    }
    ranks = [
        batches(thumbnails, transforms=transforms, rank=rank, world_size=3, batch_size=3, last_batch="drop")
        for rank in range(3)  # more than two, which decode each sample of a mosaic anew
    ]
    for rank in ranks:
        for batch in rank:
            for row, image in zip(batch.row, batch.image, strict=True):
                assert np.array_equal(image, whole[row])
    options = {
        "transforms": transforms,
        "seed": 3,
        "shuffle": True,
        "columns": ("image", "row"),
        "num_threads": 1,
    }
    with ImageLoader(thumbnails, **image_arguments(batch_size=4, **options)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with ImageLoader(thumbnails, **image_arguments(batch_size=5, **options)) as resumed:
        resumed.load_state_dict(state)
        rest = [pair for batch in resumed for pair in zip(batch.row, batch.image, strict=True)]
    assert len(rest) == len(whole) - 4
    assert all(np.array_equal(image, whole[row]) for row, image in rest)


def test_the_last_epochs_have_no_mosaics(thumbnails: Path) -> None:
    closing = [Mosaic(32, stop_epoch=1), DetectionMixUp(stop_epoch=1)]
    options = {"batch_size": 8, "columns": ("image",), "num_threads": 1}
    with ImageLoader(thumbnails, **image_arguments(transforms=closing, **options)) as loader:
        first = next(iter(loader)).image
        loader.set_epoch(1)
        second = next(iter(loader)).image
    with ImageLoader(thumbnails, **image_arguments(transforms=[Mosaic(32, p=0.0)], **options)) as loader:
        loader.set_epoch(1)
        assert np.array_equal(next(iter(loader)).image, second)
        loader.set_epoch(0)
        assert not np.array_equal(next(iter(loader)).image, first)


COLUMNS = ("image", "boxes", "object_id", "masks", "keypoints", "segmentation", "area")


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("after", [[], [RandomAffine(20)]], ids=["upright", "turned"])
def test_annotations_follow_the_tiles_of_their_image(annotated: Path, engine: str, after: list[Any]) -> None:
    checked, is_upright = 0, not after
    mosaic = Mosaic(160, scale=(0.8, 1.2), fill=0)
    for batch in batches(annotated, transforms=[mosaic, *after, *FLIPS], columns=COLUMNS, engine=engine):
        for i, boxes in enumerate(batch.boxes):
            bright = batch.image[i, 0] > 100
            assert np.count_nonzero(bright != (batch.segmentation[i] == 1)) <= 4 * sum(bright.shape)
            for k, number in enumerate(batch.object_id[i]):
                left, top, right, bottom = np.rint(boxes[k]).astype(int)
                assert 0 <= left <= right <= 160
                if number % 100 == 0 and min(right - left, bottom - top) > 12:
                    assert bright[batch.masks[i][k] > 0].mean() > 0.9
                    if is_upright:
                        assert np.abs(bounding_box(batch.masks[i][k] > 0) - boxes[k]).max() <= 1.5
                    seen = batch.keypoints[i][k]
                    seen = seen[seen[:, 2] > 0]
                    assert not is_upright or all(
                        (boxes[k, :2] <= point + 1e-4).all() and (point <= boxes[k, 2:] + 1e-4).all()
                        for point in seen[:, :2]
                    )
                    checked += 1
    assert checked > N


def test_min_visible_counts_the_part_of_a_box_that_its_tile_shows(annotated: Path) -> None:
    options = {"transforms": [Mosaic(160)], "columns": ("boxes", "object_id")}

    def count(**rule: float) -> int:
        return sum(len(ids) for batch in batches(annotated, **options, **rule) for ids in batch.object_id)

    assert 0 < count(min_visible=0.9) < count()


def test_mixed_images_keep_the_objects_of_both(annotated: Path) -> None:
    options = {"columns": ("image", "object_id", "row")}
    plain = {
        row: ids
        for batch in batches(annotated, **options, transforms=[Resize((30, 40))])
        for row, ids in zip(batch.row, batch.object_id, strict=True)
    }
    for batch in batches(annotated, **options, transforms=[Resize((30, 40)), DetectionMixUp(1.0)]):
        for row, ids in zip(batch.row, batch.object_id, strict=True):
            first, second = np.split(ids, [len(plain[row])])
            assert first.tolist() == plain[row].tolist()
            (partner,) = set((second // 100).tolist())
            assert partner != row


PASTED = ("image", "boxes", "object_id", "masks", "keypoints", "area", "row")
PASTING = [Resize((60, 80)), RandomHorizontalFlip(), CopyPaste(1.0, 0.8), RandomVerticalFlip()]


def test_pasted_objects_show_their_pixels_and_hide_what_is_below(annotated: Path) -> None:
    columns = {"columns": PASTED}
    plain = {
        row: dict(zip(ids, areas, strict=True))
        for batch in batches(annotated, **columns, transforms=PASTING[:2])
        for row, ids, areas in zip(batch.row, batch.object_id, batch.area, strict=True)
    }
    smaller = pasted = 0
    for batch in batches(annotated, **columns, transforms=PASTING):
        for i, row in enumerate(batch.row.tolist()):
            own = batch.object_id[i] // 100 == row
            masks, boxes, numbers = batch.masks[i], batch.boxes[i], batch.object_id[i]
            assert not (masks[own].any(axis=0) & masks[~own].any(axis=0)).any()
            for k, number in enumerate(numbers.tolist()):
                if own[k]:
                    smaller += batch.area[i][k] < 0.99 * plain[row][number]
                else:
                    pasted += 1
                    assert number % 100 != 1  # a crowd
                assert bounding_box(masks[k] > 0) == pytest.approx(boxes[k], abs=1.5)
                if number % 100 == 0:
                    assert (batch.image[i, 0][masks[k] > 0] > 100).mean() > 0.95
    assert smaller > 0
    assert pasted >= N / 2


def test_pasted_images_are_those_of_the_reference(annotated: Path) -> None:
    for transforms in (PASTING, [Mosaic(96), CopyPaste(1.0), RandomAffine(10), ColorJitter(0.3)]):
        native, reference = (
            batches(annotated, transforms=transforms, columns=PASTED, engine=engine, exact=True)
            for engine in ("native", "reference")
        )
        for a, b in zip(native, reference, strict=True):
            difference = np.abs(a.image.astype(int) - b.image)
            assert (difference > 3).mean() < 0.002
            assert all(np.array_equal(*pair) for pair in zip(a.object_id, b.object_id, strict=True))


def test_min_left_drops_objects_that_pasted_ones_mostly_hide(annotated: Path) -> None:
    def count(least: float) -> int:
        transforms = [Resize((60, 80)), CopyPaste(1.0, 1.0, min_left=least)]
        pasted = batches(annotated, transforms=transforms, columns=PASTED)
        return sum(len(boxes) for batch in pasted for boxes in batch.boxes)

    assert count(0.95) < count(0.0)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_damaged_partner_is_named(pack_images: Callable[..., Path], engine: str) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (9, 20, 30, 3), np.uint8)
    images = [encode(pixels) for pixels in noise]
    images[2] = images[2][: len(images[2]) // 2 + 300]
    folder = pack_images(images)
    with pytest.raises(SampleError, match="k2"):
        batches(folder, transforms=[Mosaic(32)], engine=engine)
    options = {"transforms": [Mosaic(32)], "engine": engine, "on_error": "skip", "max_bad": None}
    with pytest.warns(UserWarning, match="'k2'"):
        rows = [row for batch in batches(folder, shuffle=False, **options) for row in batch.row.tolist()]
    assert 0 < len(rows) < 8
    assert 2 not in rows


@pytest.mark.parametrize(
    ("transforms", "options", "message"),
    [
        ([Resize((8, 8)), Mosaic(8)], {}, "Mosaic must be the first"),
        ([Resize((8, 8)), ColorJitter(0.1), DetectionMixUp()], {}, "stands after a transform of colours"),
        ([Mosaic(8)], {"columns": ("image", "to_source")}, "cannot mix the column 'to_source'"),
        ([Mosaic(8)], {"columns": ("image", "label")}, "cannot mix the column 'label'"),
        ([Mosaic(8)], {"engine": "dali", "columns": ("image",)}, "images of several samples"),
        ([Resize((8, 8)), CopyPaste()], {"columns": ("image",)}, "the dataset has none"),
        ([Resize((8, 8)), DetectionMixUp(), CopyPaste()], {}, "CopyPaste stands after DetectionMixUp"),
        ({"a": [Mosaic(8)]}, {}, "named image columns"),
        ([Mosaic(8)], {"color": "rgba"}, "RGB and grey"),
    ],
)
def test_combinations_that_no_engine_can_execute_are_refused(
    thumbnails: Path, transforms: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ImageLoader(thumbnails, **image_arguments(batch_size=2, transforms=transforms, **options))
