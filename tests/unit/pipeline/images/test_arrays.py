"""Array columns in batches: stacked, padded or ragged, with checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments

import stoker
from stoker.augment import Resize
from stoker.errors import ConfigError, CorruptRecordError
from stoker.formats.dataset.columns import range_columns
from stoker.pipeline.execution.pipeline import ColumnSpec

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

EMBEDDINGS = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float16)
POINTS = [np.arange(2 * (i % 3), dtype=np.int32).reshape(-1, 2) + i for i in range(10)]
DEPTHS = [np.full((1 + i % 2, 3 - i % 3), i / 7) for i in range(10)]
COLUMNS = ("row", "embedding", "points", "depth")


def write(target: Path, container: str = "tfrecord", samples: range = range(10)) -> Path:
    with stoker.Writer(target, container=container, storage=stoker.ImageStorage(shard_records=4)) as writer:
        for i in samples:
            arrays: dict[str, Any] = {"embedding": EMBEDDINGS[i], "points": POINTS[i], "depth": DEPTHS[i]}
            writer.write(np.full((8, 8, 3), i, np.uint8), key=f"k{i}", number=i, **arrays)
    return target


def load(dataset: Any, columns: tuple[str, ...] = COLUMNS, **options: Any) -> list[Any]:
    arguments = {"batch_size": 4, "transforms": [Resize((8, 8))], "num_threads": 1, **options}
    with stoker.ImageLoader(dataset, **image_arguments(columns=columns, **arguments)) as loader:
        return list(loader)


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_arrays_of_one_shape_are_stacked_and_others_are_lists(tmp_path: Path, container: str) -> None:
    seen = 0
    for batch in load(write(tmp_path / "out", container), shuffle=True):
        seen += len(batch.row)
        np.testing.assert_array_equal(batch.embedding, EMBEDDINGS[batch.row])
        assert batch.embedding.dtype == np.float16
        for i, row in enumerate(batch.row.tolist()):
            np.testing.assert_array_equal(batch.points[i], POINTS[row])
            np.testing.assert_array_equal(batch.depth[i], DEPTHS[row])
    assert seen == 10


def test_padded_arrays_come_with_their_shapes(tmp_path: Path) -> None:
    for batch in load(write(tmp_path / "out"), arrays="padded"):
        assert batch._fields == (*COLUMNS, "points_shape", "depth_shape")
        for name, arrays in (("points", POINTS), ("depth", DEPTHS)):
            padded, shapes = getattr(batch, name), getattr(batch, f"{name}_shape")
            written = [arrays[row] for row in batch.row.tolist()]
            assert shapes.tolist() == [list(array.shape) for array in written]
            assert padded.shape == (len(written), *shapes.max(axis=0))
            for found, array in zip(padded, written, strict=True):
                expected = np.zeros_like(found)
                expected[: array.shape[0], : array.shape[1]] = array
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["ragged", "padded"])
def test_element_spec_describes_array_columns(tmp_path: Path, form: Any) -> None:
    with stoker.ImageLoader(
        write(tmp_path / "out"),
        batch_size=4,
        transforms=[Resize((8, 8))],
        columns=COLUMNS,
        objects=stoker.Objects(arrays=form),
    ) as loader:
        specs = {spec.name: spec for spec in loader.element_spec()}
    assert specs["embedding"] == ColumnSpec("embedding", "float16", (3,))
    assert specs["points"] == ColumnSpec("points", "int32", (None, 2), ragged=form == "ragged")
    assert ("depth_shape" in specs) == (form == "padded")


@pytest.fixture
def damaged(tmp_path: Path) -> stoker.Dataset:
    """The dataset with a changed byte in the array "depth" of sample 5."""
    dataset = stoker.open(write(tmp_path / "out"))
    offset, _, _ = (int(dataset.column(name)[5]) for name in range_columns("depth"))
    file = dataset.data_files[1]
    data = bytearray(file.read_bytes())
    data[offset + 3] ^= 1
    file.write_bytes(data)
    return dataset


def test_a_damaged_array_makes_a_bad_sample_of_loaders_that_read_it(damaged: stoker.Dataset) -> None:
    with pytest.raises(CorruptRecordError, match="the array 'depth' cannot be read") as caught:
        load(damaged)
    assert caught.value.key == "k5"
    with pytest.warns(UserWarning, match="k5"):
        batches = load(damaged, on_error="skip", max_bad=1)
    assert np.concatenate([batch.row for batch in batches]).tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    with pytest.warns(UserWarning, match="k5"):
        batches = load(damaged, on_error="replace", max_bad=1)
    np.testing.assert_array_equal(batches[1].depth[1], DEPTHS[6])
    load(damaged, columns=("row", "points"))


def test_a_dataset_and_verify_name_a_damaged_array(damaged: stoker.Dataset) -> None:
    with pytest.raises(CorruptRecordError, match="'depth''s checksum does not match"):
        damaged.array("depth", 5)
    problems = stoker.verify(damaged.path).problems
    assert any(problem.key == "k5" and "depth" in problem.message for problem in problems)


def test_selections_and_mixtures_have_the_arrays_of_their_samples(tmp_path: Path) -> None:
    odd = write(tmp_path / "odd", samples=range(1, 10, 2))
    even = write(tmp_path / "even", samples=range(0, 10, 2))
    selected = stoker.open(odd).select("number > 4")
    assert selected.array("points", 0).tolist() == POINTS[5].tolist()
    mixture = stoker.mix([(selected, 1), (even, 1)])
    assert mixture.arrays["embedding"].shape == (3,)
    batches = load(mixture, columns=("number", "embedding", "depth"), shuffle=True)
    assert sum(len(batch.number) for batch in batches) == 8
    for batch in batches:
        np.testing.assert_array_equal(batch.embedding, EMBEDDINGS[batch.number])
        for number, depth in zip(batch.number.tolist(), batch.depth, strict=True):
            np.testing.assert_array_equal(depth, DEPTHS[number])


def test_unknown_columns_and_forms_are_refused(tmp_path: Path) -> None:
    target = write(tmp_path / "out")
    with pytest.raises(ConfigError, match="there is no 'dept'") as caught:
        load(target, columns=("dept",))
    assert "There are codec, crc, depth, " in str(caught.value)
    with pytest.raises(ConfigError, match="arrays must be one of ragged, padded"):
        load(target, arrays="stacked")
