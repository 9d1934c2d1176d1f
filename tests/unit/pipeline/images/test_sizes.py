"""Sizes of images: by epoch and by step, padded, and in batches of similar aspect ratios."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import bounding_box, write_annotated
from helpers.command_line import run
from helpers.images import noise, png
from helpers.loaders import image_arguments

from stoker import AspectBuckets, ImageLoader, RandomSizes
from stoker.augment import (
    ColorJitter,
    CoverCrop,
    MixUp,
    Normalize,
    RandAugment,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomShortestSize,
    Resize,
)
from stoker.bucketing.aspect_shapes import ratio_groups
from stoker.errors import ConfigError

CROP = [RandomResizedCrop(9), RandomHorizontalFlip()]
COLUMNS = {"columns": ("image", "row"), "transforms": CROP, "shuffle": True}


@pytest.mark.parametrize(
    ("transforms", "size"),
    [([], (20, 30)), ([RandomHorizontalFlip(1)], (20, 30)), ([RandAugment(), Resize(10)], (10, 15))],
)
def test_images_that_all_have_one_size_need_no_transform_that_sets_it(
    pack_images: Callable[..., Path], transforms: list[Any], size: tuple[int, int]
) -> None:
    pictures = [noise(i, 20, 30) for i in range(5)]
    with ImageLoader(
        pack_images([png(one) for one in pictures]), batch_size=8, transforms=transforms
    ) as loader:
        assert loader.element_spec()[0].shape == (3, *size)
        (batch,) = loader
    assert batch.image.shape == (5, 3, *size)
    if len(transforms) < 2:
        shown = np.stack(pictures)[:, :, :: -1 if transforms else 1]
        assert np.array_equal(batch.image, shown.transpose(0, 3, 1, 2))


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


def test_annotations_have_the_size_of_the_batch(pack_images: Callable[..., Path]) -> None:
    folder = write_annotated(pack_images)
    options = {"columns": ("image", "boxes", "masks", "segmentation"), "sizes": {0: (30, 40), 1: (15, 20)}}
    with ImageLoader(
        folder, **image_arguments(batch_size=7, transforms=[Resize((60, 80))], **options)
    ) as loader:
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
    with ImageLoader(write_annotated(pack_images), **image_arguments(**options)) as loader:
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


BUCKETS = AspectBuckets(area=24 * 24, multiple=8)
OF_BUCKETS: dict[str, Any] = {
    "transforms": (),
    "columns": ("image", "row"),
    "sizes": BUCKETS,
    "batch_size": 4,
    "shuffle": True,
}


def test_an_epoch_has_every_image_once_in_the_shape_nearest_to_it(load: Callable[..., ImageLoader]) -> None:
    loader = load(**OF_BUCKETS)
    sizes = np.stack([loader.dataset.column(name) for name in ("height", "width")], axis=1)
    batches = list(loader)
    assert len(batches) == len(loader)
    assert sorted(row for batch in batches for row in batch.row) == list(range(61))
    shapes = {batch.image.shape[2:] for batch in batches}
    assert len(shapes) >= 3
    assert loader.element_spec()[0].shape == (3, None, None)
    for batch in batches:
        ratios = np.log(sizes[batch.row, 0] / sizes[batch.row, 1])
        distances = np.abs(ratios[:, None] - np.log([height / width for height, width in shapes]))
        distance = np.abs(ratios - np.log(batch.image.shape[2] / batch.image.shape[3]))
        # A few samples that were left over have moved on to the next shape.
        assert (distance <= distances.min(axis=1) + 0.5).all()


def test_epochs_differ_only_with_shuffle(load: Callable[..., ImageLoader]) -> None:
    for shuffle in (True, False):
        loader = load(**{**OF_BUCKETS, "shuffle": shuffle})
        epochs = [[batch.row.tolist() for batch in loader] for _ in range(2)]
        assert (epochs[0] != epochs[1]) is shuffle
        assert sorted(map(len, epochs[0])) == sorted(map(len, epochs[1]))


def test_without_shuffle_an_image_is_its_centre(load: Callable[..., ImageLoader]) -> None:
    batch = next(iter(load(**{**OF_BUCKETS, "shuffle": False})))
    transforms = [CoverCrop(batch.image.shape[2:], random=False)]
    alone = list(load(transforms=transforms, batch_size=1, columns=("image", "row")))
    for image, row in zip(batch.image, batch.row.tolist(), strict=True):
        assert np.array_equal(image, alone[row].image[0])


def test_a_crop_or_resize_of_the_user_replaces_the_cover_crop(load: Callable[..., ImageLoader]) -> None:
    for own, first in (([Resize((9, 9))], Resize), ([], CoverCrop)):
        plan = (
            load(**OF_BUCKETS | {"transforms": [*own, RandomHorizontalFlip()]}).pipeline.config.images[0].plan
        )
        assert [type(one) for one in plan.transforms] == [first, RandomHorizontalFlip]


def test_batches_hold_no_more_than_pixels_per_batch(load: Callable[..., ImageLoader]) -> None:
    loader = load(**{**OF_BUCKETS, "batch_size": None, "pixels_per_batch": 3000})
    for batch in loader:
        assert len(batch.row) * batch.image.shape[2] * batch.image.shape[3] <= 3000
    assert loader.has_equal_epochs


def test_batches_have_no_more_shapes_than_buckets(load: Callable[..., ImageLoader]) -> None:
    limited = AspectBuckets(area=24 * 24, multiple=8, buckets=2)
    shapes = {batch.image.shape[2:] for batch in load(**{**OF_BUCKETS, "sizes": limited})}
    assert len(shapes) == 2


def test_a_cover_crop_keeps_the_aspect_ratio(pack_images: Callable[..., Path]) -> None:
    pixels = np.zeros((40, 100, 3), np.uint8)
    pixels[:, 50:] = 200
    folder = pack_images([png(pixels)])
    with ImageLoader(folder, batch_size=1, transforms=[CoverCrop((20, 20), random=False)]) as loader:
        image = next(iter(loader)).image[0, 0]
    assert (image[:, :9] == 0).all()
    assert (image[:, 11:] == 200).all()


GROUP_OPTIONS: dict[str, Any] = {
    "transforms": (),
    "sizes": "padded",
    "columns": ("image", "row", "image_size"),
    "batch_size": 4,
    "shuffle": True,
}


@pytest.mark.parametrize("factor", [0, 1, 3])
def test_groups_are_those_of_torchvisions_references(factor: int) -> None:
    sizes = np.random.default_rng(0).integers(10, 40, (200, 2))
    bins = (2 ** np.linspace(-1, 1, 2 * factor + 1)).tolist() if factor > 0 else [1.0]
    expected = [bisect.bisect_right(bins, width / height) for height, width in sizes.tolist()]
    assert ratio_groups(sizes, factor).tolist() == expected


def test_batches_have_one_group_and_less_padding(load: Callable[..., ImageLoader]) -> None:
    def padding(batches: Iterable[Any]) -> float:
        shown = sum(int(batch.image_size.prod(axis=1).sum()) for batch in batches)
        return 1 - shown / sum(batch.image[:, 0].size for batch in batches)

    grouped, ungrouped = list(load(**GROUP_OPTIONS, aspect_ratio_group_factor=1)), list(load(**GROUP_OPTIONS))
    assert padding(grouped) < padding(ungrouped)
    mixed = [len(np.unique(ratio_groups(batch.image_size, 1))) > 1 for batch in grouped]
    assert sum(mixed) <= 3  # batches into which images that were left over have moved from the next group


def test_the_command_shows_what_groups_save_and_cost(thumbnails: Path, tmp_path: Path) -> None:
    arguments = ["buckets", thumbnails, "--padded", "--batch-size", 4, "--json", tmp_path / "r.json"]
    assert "aspect_ratio_group_factor" in run(*arguments)
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["None"]["groups"] == 1 < report["3"]["groups"]
    assert report["3"]["padding"] < report["None"]["padding"]
    assert report["3"]["effective_partners"] < report["None"]["effective_partners"]
    with pytest.raises(ConfigError, match="--png draws shapes of buckets"):
        run(*arguments, "--png", tmp_path / "r.png")
