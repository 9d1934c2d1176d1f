"""ImageLoader: the columns of its batches, its epochs, and the warning of a slow engine."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.transforms import RandomUpset

from stoker import ImageLoader
from stoker.augment import GaussianBlur, RandomResizedCrop
from stoker.errors import ConfigError, DatasetError, LoaderClosedError
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.registry import Machine
from stoker.pipeline.execution.pipeline import ColumnSpec
from stoker.pipeline.images import image_pipeline as setup
from stoker.pipeline.order.orders import BlockShuffle


def rows(batches: Any) -> list[int]:
    """The rows of all samples of batches, or of an epoch of a loader."""
    return [int(row) for batch in batches for row in batch.row]


def test_a_batch_holds_the_columns_asked_for(load: Callable[..., ImageLoader], thumbnails: Path) -> None:
    names = ("image", "label", "row", "key", "mask", "height", "crc")
    loader = load(columns=names, shuffle=True)
    batch = next(iter(loader))
    assert batch._fields == names
    index = open_dataset(thumbnails).index
    assert batch.image.shape == (16, 3, 8, 8)
    assert batch.image.dtype == np.uint8
    assert np.array_equal(batch.label, batch.row)
    assert batch.key == [f"k{row}" for row in batch.row]
    assert batch.mask.all()
    assert np.array_equal(batch.height, index.column("height")[batch.row])
    assert np.array_equal(batch.crc, index.column("crc")[batch.row])
    assert loader.element_spec() == (
        ColumnSpec("image", "uint8", (3, 8, 8)),
        ColumnSpec("label", "int64", ()),
        ColumnSpec("row", "int64", ()),
        ColumnSpec("key", "str", ()),
        ColumnSpec("mask", "bool", ()),
        ColumnSpec("height", "int32", ()),
        ColumnSpec("crc", "uint32", ()),
    )


@pytest.mark.parametrize("shuffle", [False, True, BlockShuffle(0, block=5, window=3)])
def test_an_epoch_holds_every_sample_once_and_the_next_one_follows(
    load: Callable[..., ImageLoader], shuffle: Any
) -> None:
    loader = load(shuffle=shuffle, seed=3)
    first, second = rows(loader), rows(loader)
    assert sorted(first) == sorted(second) == list(range(61))
    assert (first == second) == (shuffle is False)
    loader.set_epoch(0)
    assert rows(loader) == first
    assert rows(loader) == second
    assert loader.stats().samples == 4 * 61
    assert loader.stats().seconds > 0


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
def test_a_rank_without_samples_in_the_last_batch_continues_with_the_next_epoch(
    load: Callable[..., ImageLoader],
) -> None:
    columns = ("image", "row")
    loader = load(batch_size=1, rank=5, world_size=60, columns=columns)
    wanted = next(iter(load(columns=columns))).image[5]
    for _ in range(3):
        first, last = loader
        assert (first.row.tolist(), last.row.tolist()) == ([5], [])
        assert (len(first.image), len(last.image)) == (1, 0)
    loader.set_epoch(0)
    assert np.array_equal(next(iter(loader)).image[0], wanted)


def test_a_rank_warns_once_of_an_empty_last_batch(load: Callable[..., ImageLoader]) -> None:
    options: dict[str, Any] = {"batch_size": 10, "world_size": 3}  # 61 samples: one is left
    loader = load(rank=1, **options)
    with pytest.warns(
        UserWarning, match=r"rank 1 of 3 .* empty last batch.*last_batch='drop', or 'pad'"
    ) as caught:
        assert [len(batch.row) for batch in loader] == [10, 10, 0]
    assert [warning.filename for warning in caught] == [__file__]
    assert [len(batch.row) for batch in loader] == [10, 10, 0]
    for quiet in ({"rank": 0}, {"rank": 1, "last_batch": "pad"}, {"rank": 1, "last_batch": "drop"}):
        assert all(len(batch.row) for batch in load(**options, **quiet))


def test_the_rest_of_an_epoch_can_end_in_an_empty_batch_though_the_epoch_does_not(
    load: Callable[..., ImageLoader],
) -> None:
    loader = load(batch_size=3, rank=1, world_size=3)
    assert all(len(batch.row) for batch in loader)
    loader.load_state_dict({**loader.state_dict(), "position": 60})
    with pytest.warns(UserWarning, match="empty last batch"):
        assert [len(batch.row) for batch in loader] == [0]


@pytest.mark.filterwarnings("ignore:a bad sample was")
@pytest.mark.parametrize("bad", [0, 10])
def test_the_mask_keeps_padding_that_a_good_sample_replaces(
    load: Callable[..., ImageLoader],
    pack_images: Callable[..., Path],
    make_jpeg: Callable[..., bytes],
    bad: int,
) -> None:
    payloads = [make_jpeg(i) for i in range(11)]
    crc = open_dataset(pack_images(payloads)).index.column("crc").copy()
    crc[bad] ^= 1
    broken = pack_images(payloads, crc=crc)
    options = {"dataset": broken, "batch_size": 4, "columns": ("row", "mask"), "last_batch": "pad"}
    replaced = list(load(on_error="replace", **options))[-1]  # rows 8, 9, 10, and row 0 behind them
    assert replaced.row.tolist() == ([8, 9, 10, 8] if bad == 0 else [8, 9, 0, 0])
    assert replaced.mask.tolist() == [True, True, True, False]
    skipped = list(load(on_error="skip", **options))[-1]
    assert skipped.row.tolist() == ([8, 9, 10] if bad == 0 else [8, 9, 0])
    assert skipped.mask.tolist() == [True, True, bad == 0]


def test_pixels_depend_on_the_epoch_and_not_on_the_batch_size(load: Callable[..., ImageLoader]) -> None:
    def images(batch_size: int, epoch: int) -> Any:
        loader = load(columns=("image", "row"), batch_size=batch_size)
        loader.set_epoch(epoch)
        return np.concatenate([batch.image for batch in loader])

    assert np.array_equal(images(16, 0), images(7, 0))
    assert not np.array_equal(images(16, 0), images(16, 1))


@pytest.mark.parametrize(
    ("last_batch", "sizes"), [("partial", [16, 16, 16, 13]), ("drop", [16] * 3), ("pad", [16] * 4)]
)
def test_last_batch_decides_the_sizes_of_batches(
    load: Callable[..., ImageLoader], last_batch: str, sizes: list[int]
) -> None:
    loader = load(last_batch=last_batch, columns=("image", "row"))
    batches = list(loader)
    assert [len(batch.row) for batch in batches] == sizes
    assert [len(batch.image) for batch in batches] == sizes
    assert len(loader) == len(sizes)
    assert hasattr(batches[0], "mask") == (last_batch == "pad")
    if last_batch == "pad":
        assert np.concatenate([batch.row[batch.mask] for batch in batches]).tolist() == list(range(61))


@pytest.mark.filterwarnings("ignore:.*an empty last batch")
def test_a_rank_without_samples_gets_an_empty_batch(
    load: Callable[..., ImageLoader], thumbnails: Path
) -> None:
    two = open_dataset(thumbnails).select([4, 9])
    for dtype in ("uint8", "bfloat16"):
        loader = load(dataset=two, rank=2, world_size=3, columns=("image", "label", "key"), dtype=dtype)
        images, labels, keys = next(iter(loader))
        assert images.shape == (0, 3, 8, 8)
        assert images.dtype.name == dtype
        assert labels.shape == (0,)
        assert keys == []


@pytest.mark.parametrize("kind", ["tfrecord", "lmdb"])
@pytest.mark.parametrize("engine", ["native", "dali"])
def test_every_container_is_loaded_from_several_shards(
    load: Callable[..., ImageLoader], make_dataset: Callable[..., Path], kind: str, engine: str
) -> None:
    if engine == "dali":
        pytest.importorskip("nvidia.dali")
    loader = load(dataset=make_dataset(kind, shards=3), engine=engine, columns=("image", "key", "label"))
    (batch,) = loader
    assert batch.key == [f"k{row}" for row in range(6)]
    assert batch.label.tolist() == [0, 1, 2, 0, 1, 2]
    assert len({image.tobytes() for image in batch.image}) == 6


@pytest.mark.parametrize("dataset", [["shards/a", "shards/b"], None, range(10)])
def test_an_object_that_is_no_dataset_is_refused(dataset: Any) -> None:
    with pytest.raises(ConfigError, match=r"dataset must be a path.*\n.*stoker\.mix; "):
        ImageLoader(dataset, batch_size=4)


def test_an_epoch_below_zero_is_refused(load: Callable[..., ImageLoader]) -> None:
    with pytest.raises(ConfigError, match="epoch must be at least 0, found -1"):
        load().set_epoch(-1)


def test_a_folder_without_a_dataset_is_refused(load: Callable[..., ImageLoader], tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"dataset\.json"):
        load(dataset=tmp_path)


def test_an_empty_dataset_is_refused(load: Callable[..., ImageLoader], thumbnails: Path) -> None:
    with pytest.raises(ConfigError, match="no samples"):
        load(dataset=open_dataset(thumbnails).select([]))


def test_columns_of_lists_are_refused_when_the_loader_is_made(
    load: Callable[..., ImageLoader], pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes]
) -> None:
    folder = pack_images([make_jpeg(0)], tags=[[1, 2]], weight=np.ones(1, np.float32))
    with pytest.raises(ConfigError, match=r"'tags' holds large_list<.*>, which no batch has"):
        load(dataset=folder, columns=("tags",))
    loader = load(dataset=folder, columns=("weight",))
    assert next(iter(loader)).weight.tolist() == [1.0]
    assert loader.element_spec() == (ColumnSpec("weight", "float32", ()),)


def test_repr_names_dataset_batches_engine_and_rank(load: Callable[..., ImageLoader]) -> None:
    loader = load()
    assert "4 batches of 16" in repr(loader)
    assert loader.engine in repr(loader)
    assert (loader.device, len(loader.dataset)) == ("cpu", 61)


def test_numpy_batches_come_from_the_cpu_on_a_machine_with_gpus(
    load: Callable[..., ImageLoader], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine of the test may have no GPU.
    monkeypatch.setattr(setup, "this_machine", lambda device: Machine(cores=2, gpus=1, has_dali=True))
    assert load(engine="auto", batch_size=4).device == "cpu"


def test_a_loader_is_not_pickled(load: Callable[..., ImageLoader]) -> None:
    with pytest.raises(LoaderClosedError, match="Make the loader in the process"):
        pickle.dumps(load())


UPSET: list[Any] = [RandomResizedCrop(8), RandomUpset(1), GaussianBlur(3)]


def test_a_custom_step_before_another_step_is_a_warning_that_names_it(
    load: Callable[..., ImageLoader],
) -> None:
    with pytest.warns(
        UserWarning, match=r"'reference' runs all .* step Upset before another .* a function of"
    ) as caught:
        loader = load(transforms=UPSET, columns=("image",))
    assert loader.engine == "reference"
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader)) == 4


def test_a_custom_step_at_the_end_and_a_slow_engine_that_is_asked_for_warn_of_nothing(
    load: Callable[..., ImageLoader],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(transforms=UPSET, engine="reference")
        assert load(transforms=UPSET[:2]).engine == "native"


@pytest.mark.filterwarnings("ignore:the slow engine")
def test_the_statistics_name_the_engine_and_the_step(load: Callable[..., ImageLoader]) -> None:
    for engine in ("auto", "reference"):
        stats = load(transforms=UPSET, engine=engine).stats()
        assert (stats.engine, stats.slow_steps) == ("reference", ("Upset",))
    stats = load(transforms=UPSET[:2]).stats()
    assert (stats.engine, stats.slow_steps, stats.custom_steps) == ("native", (), ("Upset",))
    assert (load().stats().engine, load().stats().slow_steps) == ("native", ())
