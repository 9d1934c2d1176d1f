"""Images smaller than a crop: an error names them, where possible when the loader is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import stoker
from stoker import ImageLoader
from stoker.augment import RandomApply, RandomCrop, Resize
from stoker.errors import ConfigError
from stoker.formats.open import open as open_dataset
from stoker.pipeline.order.sampling import Weighted

SIZES = [(40, 40), (40, 50), (40, 31), (60, 40), (30, 60)]
"""Heights and widths; the third is the narrowest, the last the lowest."""


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, target = tmp_path_factory.mktemp("sizes") / "source", tmp_path_factory.mktemp("sizes") / "shards"
    (source / "one").mkdir(parents=True)
    for number, size in enumerate(SIZES):
        Image.fromarray(np.full((*size, 3), 90, np.uint8)).save(source / f"one/{number}.png")
    stoker.convert(source, target)
    return target


@pytest.mark.parametrize(
    ("size", "key", "image_size"), [((8, 32), "2.png", "40 x 31"), (32, "4.png", "30 x 60")]
)
def test_a_crop_larger_than_an_image_is_refused_when_the_loader_is_made(
    sized: Path, load: Callable[..., ImageLoader], size: Any, key: str, image_size: str
) -> None:
    with pytest.raises(ConfigError, match=f"larger than an image of {image_size}") as caught:
        load(dataset=sized, transforms=[RandomCrop(size)])
    error = caught.value
    assert (error.shard, error.key) == ("shard-00000-of-00001.tfrecord", f"one/{key}")
    assert error.record is not None
    assert "pad_if_needed=True" in str(error)


@pytest.mark.parametrize(
    "transforms", [[RandomCrop(32, pad_if_needed=True)], [Resize(32), RandomCrop(32)], [RandomCrop(30)]]
)
def test_a_crop_that_fits_all_images_is_accepted(
    sized: Path, load: Callable[..., ImageLoader], transforms: list[Any]
) -> None:
    assert sum(len(batch.row) for batch in load(dataset=sized, transforms=transforms)) == len(SIZES)


def test_images_outside_of_a_selection_do_not_count(sized: Path, load: Callable[..., ImageLoader]) -> None:
    dataset = open_dataset(sized)
    large = dataset.select((dataset.column("height") >= 32) & (dataset.column("width") >= 32))
    loader = load(dataset=large, transforms=[RandomCrop(32)])
    assert sum(len(batch.row) for batch in loader) == len(SIZES) - 2


def test_a_sampler_may_leave_out_small_images(sized: Path, load: Callable[..., ImageLoader]) -> None:
    dataset = open_dataset(sized)
    large = (dataset.column("height") >= 32) & (dataset.column("width") >= 32)
    sampler = Weighted(large.astype(float))
    loader = load(dataset=dataset, transforms=[RandomCrop(32)], sampler=sampler)
    assert sum(len(batch.row) for batch in loader) == len(SIZES)


def test_a_small_image_that_an_epoch_meets_is_named(sized: Path, load: Callable[..., ImageLoader]) -> None:
    loader = load(dataset=sized, transforms=[RandomApply([RandomCrop(32)], p=1.0), Resize((8, 8))])
    with pytest.raises(ConfigError, match="larger than an image of 40 x 31") as caught:
        list(loader)
    assert (caught.value.shard, caught.value.key) == ("shard-00000-of-00001.tfrecord", "one/2.png")
    assert "pad_if_needed=True" in str(caught.value)
