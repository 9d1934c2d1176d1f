"""Batches of images of similar aspect ratios, each batch of one shape."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command_line import run
from helpers.images import png

from stoker import AspectBuckets, ImageLoader
from stoker.augment import CoverCrop, RandomHorizontalFlip, Resize
from stoker.bucketing.aspect_shapes import ratio_groups
from stoker.errors import ConfigError

BUCKETS = AspectBuckets(area=24 * 24, multiple=8)
OPTIONS: dict[str, Any] = {
    "transforms": (),
    "columns": ("image", "row"),
    "sizes": BUCKETS,
    "batch_size": 4,
    "shuffle": True,
}


def test_an_epoch_has_every_image_once_in_the_shape_nearest_to_it(load: Callable[..., ImageLoader]) -> None:
    loader = load(**OPTIONS)
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
        loader = load(**{**OPTIONS, "shuffle": shuffle})
        epochs = [[batch.row.tolist() for batch in loader] for _ in range(2)]
        assert (epochs[0] != epochs[1]) is shuffle
        assert sorted(map(len, epochs[0])) == sorted(map(len, epochs[1]))


def test_without_shuffle_an_image_is_its_centre(load: Callable[..., ImageLoader]) -> None:
    batch = next(iter(load(**{**OPTIONS, "shuffle": False})))
    transforms = [CoverCrop(batch.image.shape[2:], random=False)]
    alone = list(load(transforms=transforms, batch_size=1, columns=("image", "row")))
    for image, row in zip(batch.image, batch.row.tolist(), strict=True):
        assert np.array_equal(image, alone[row].image[0])


def test_a_crop_or_resize_of_the_user_replaces_the_cover_crop(load: Callable[..., ImageLoader]) -> None:
    for own, first in (([Resize((9, 9))], Resize), ([], CoverCrop)):
        plan = load(**OPTIONS | {"transforms": [*own, RandomHorizontalFlip()]}).pipeline.config.images[0].plan
        assert [type(one) for one in plan.transforms] == [first, RandomHorizontalFlip]


def test_batches_hold_no_more_than_pixels_per_batch(load: Callable[..., ImageLoader]) -> None:
    loader = load(**{**OPTIONS, "batch_size": None, "pixels_per_batch": 3000})
    for batch in loader:
        assert len(batch.row) * batch.image.shape[2] * batch.image.shape[3] <= 3000
    assert loader.has_equal_epochs


def test_batches_have_no_more_shapes_than_buckets(load: Callable[..., ImageLoader]) -> None:
    limited = AspectBuckets(area=24 * 24, multiple=8, buckets=2)
    shapes = {batch.image.shape[2:] for batch in load(**{**OPTIONS, "sizes": limited})}
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
