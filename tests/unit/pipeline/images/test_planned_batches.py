"""Planned batches: blocks that are read ahead, images too small for a crop, and seeds of parameters."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments
from PIL import Image

import stoker
from stoker import ImageLoader
from stoker.augment import CutMix, MixUp, RandomApply, RandomChoice, RandomCrop, Resize
from stoker.errors import ConfigError
from stoker.formats.dataset.index import Samples
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.reference import ReferenceEngine
from stoker.pipeline.order.sampling import Weighted


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Rows of each request for bytes; the reads themselves can be seen only at the disk."""
    requests: list[list[int]] = []

    def record(engine: ReferenceEngine, samples: Samples, columns: object = ()) -> None:
        requests.append(samples.row.tolist())

    monkeypatch.setattr(ReferenceEngine, "read_ahead", record)
    return requests


@pytest.mark.parametrize("position", [0, 20])
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_blocks_of_a_window_are_asked_for_in_the_order_of_the_files_before_its_batches(
    load: Callable[..., stoker.ImageLoader], asked: list[list[int]], ranks: int, position: int
) -> None:
    options = {"batch_size": 4 // ranks, "rank": ranks - 1, "world_size": ranks, "last_batch": "pad"}
    loader = load(shuffle=stoker.BlockShuffle(block=4, window=4), engine="reference", **options)
    loader.load_state_dict({**loader.state_dict(), "position": position})
    batches = [batch.row.tolist() for batch in loader]
    loader.close()
    whole = len(asked[0])
    assert whole == (16 - position % 16) // ranks
    assert sorted(chain(*batches[: whole * ranks // 4])) == asked[0], "the first window"
    missing, seen = list(batches), set()
    for rows in asked:  # those of the next epoch come last
        if missing and rows == missing[0]:
            assert seen.issuperset(missing.pop(0)), "its window was asked for before"
        elif missing:
            assert rows == sorted(rows), "a part of a window"
            seen.update(rows)
    assert not missing


def test_other_orders_ask_for_the_bytes_of_batches_alone(
    load: Callable[..., stoker.ImageLoader], asked: list[list[int]]
) -> None:
    loader = load(shuffle=True, batch_size=16, engine="reference")
    batches = [batch.row.tolist() for batch in loader]
    loader.close()
    assert asked[: len(batches)] == batches


def test_a_mixture_reads_the_blocks_of_its_datasets(thumbnails: Path, asked: list[list[int]]) -> None:
    mixture = stoker.mix([(thumbnails, 0.5), (thumbnails, 0.5)])
    shuffle = stoker.BlockShuffle(block=4, window=4)
    transforms = [Resize((8, 8))]
    options = {"batch_size": 8, "shuffle": shuffle, "transforms": transforms, "engine": "reference"}
    with stoker.ImageLoader(mixture, **image_arguments(**options)) as loader:
        next(iter(loader))
    assert len(asked[0]) == 32
    assert asked[0] == sorted(asked[0])


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


OPTIONS: dict[str, Any] = {"columns": ("image", "label", "row"), "shuffle": True, "seed": 3}


def test_two_loaders_with_one_seed_show_two_crops_of_each_sample(load: Callable[..., ImageLoader]) -> None:
    loaders = load(**OPTIONS), load(**OPTIONS), load(**OPTIONS, draw_seed=4)
    for batch, same, other in zip(*loaders, strict=True):
        assert batch.row.tolist() == other.row.tolist()
        assert np.array_equal(batch.image, same.image)
        assert (batch.image != other.image).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("transform", [MixUp(0.5), CutMix(), RandomChoice([MixUp(0.5), CutMix()])])
def test_the_draw_seed_also_decides_how_a_batch_is_mixed(
    load: Callable[..., ImageLoader], transform: Any
) -> None:
    options = {**OPTIONS, "transforms": [Resize((8, 8)), transform], "columns": ("image", "row")}
    for batch, other in zip(load(**options), load(**options, draw_seed=4), strict=True):
        assert batch.row.tolist() == other.row.tolist()
        assert not np.array_equal(batch.image, other.image)


def test_parameters_depend_on_the_draw_seed_and_the_order_on_the_seed(
    load: Callable[..., ImageLoader],
) -> None:
    options = {**OPTIONS, "shuffle": False}
    with_seed, with_draw_seed = load(**{**options, "seed": 9}), load(**options, draw_seed=np.int64(9))
    for batch, same in zip(with_seed, with_draw_seed, strict=True):
        assert np.array_equal(batch.image, same.image)
