"""Tests of selections by mask and by position, and of splits by key and by class."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.datasets import jpeg

import stoker
from stoker.errors import ConfigError

Make = Callable[..., Path]


def test_a_selection_by_mask_or_position_reads_its_samples_alone(
    make_dataset: Make, make_jpeg: Callable[..., bytes]
) -> None:
    dataset = stoker.open(make_dataset())
    dogs = dataset.select(dataset.labels == 1)
    assert dogs.rows.tolist() == [1, 4]
    assert dogs.labels.tolist() == [1, 1]
    assert dogs.keys([1]) == ["k4"]
    assert dogs.read(1) == make_jpeg(4)
    assert dogs.samples([0, 1]).row.tolist() == [1, 4]
    assert dogs.select([1, 1, 0]).rows.tolist() == [4, 4, 1]
    assert dataset.select([5, 4, 4, 0]).select("label == 1").rows.tolist() == [4, 4]
    assert len(dogs.select([])) == 0
    assert dogs.values("crc", [1]).tolist() == dataset.values("crc", [4]).tolist()
    assert dogs.error(1, "bad").key == "k4"


def test_different_selections_have_different_fingerprints(make_dataset: Make) -> None:
    dataset = stoker.open(make_dataset())
    fingerprints = {
        d.fingerprint for d in (dataset, dataset.select([0]), dataset.select([1]), dataset.select([0, 1]))
    }
    assert len(fingerprints) == 4
    assert dataset.select([0]).fingerprint == dataset.select([0]).fingerprint
    other = stoker.open(make_dataset(payloads=[b"x"], name="other"))
    assert other.select([0]).fingerprint not in fingerprints


@pytest.mark.parametrize(
    ("which", "error", "message"),
    [
        ([True], ConfigError, "a mask must have one entry a sample, 6"),
        ([6], IndexError, "positions go from 0 to 5, found 6"),
        ([-1], IndexError, "positions go from 0 to 5, found -1"),
        ([0.5], ConfigError, "positions must be integers, not float64"),
        ([[0, 1]], ConfigError, "positions must have one dimension"),
    ],
)
def test_a_mask_or_positions_that_do_not_fit_are_refused(
    make_dataset: Make, which: list[Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        stoker.open(make_dataset()).select(which)


def test_positions_out_of_range_or_of_another_type_are_refused(make_dataset: Make) -> None:
    dataset = stoker.open(make_dataset()).select([0, 1])
    for position in (-1, 2):
        with pytest.raises(IndexError, match="positions go from 0 to 1"):
            dataset.keys([position])
    for positions in ([0.5], [True]):  # which NumPy would round, and take for 1
        with pytest.raises(ConfigError, match="positions must be integers, not"):
            dataset.samples(positions)


def test_the_key_of_a_sample_decides_its_split(make_dataset: Make) -> None:
    dataset = stoker.open(make_dataset(payloads=[b"x"] * 2000))
    first, second = dataset.split(0.2, seed=1, stratified=False)
    assert len(first) + len(second) == 2000
    assert 330 < len(first) < 470  # 400, and four deviations
    assert not set(first.rows) & set(second.rows)
    # The split of a sample is the same without the others.
    some = dataset.select(np.arange(0, 2000, 3))
    assert set(some.split(0.2, seed=1, stratified=False)[0].rows) == set(first.rows) & set(some.rows)
    # A larger fraction has all samples of a smaller one.
    assert set(first.rows) < set(dataset.split(0.3, seed=1, stratified=False)[0].rows)
    assert set(dataset.split(0.2, seed=2, stratified=False)[0].rows) != set(first.rows)
    negative = dataset.split(0.2, seed=-1, stratified=False)[0]
    assert set(negative.rows) not in (set(first.rows), set(dataset.rows))
    assert [len(part) for part in dataset.split(1.0)] == [2000, 0]
    assert [len(part) for part in dataset.split(0.0)] == [0, 2000]


def test_a_fraction_above_1_is_refused(make_dataset: Make) -> None:
    with pytest.raises(ConfigError, match=r"from 0 to 1, not 1\.5"):
        stoker.open(make_dataset()).split(1.5)


@pytest.mark.parametrize(
    ("which", "distinct"),
    [([], True), ([1, 2, 4], True), ([4, 1, 2], True), ([1, 1], False), ([1, 4, 1], False)],
)
def test_a_selection_is_distinct_unless_a_sample_repeats(
    make_dataset: Make, which: list[int], distinct: bool
) -> None:
    assert stoker.open(make_dataset()).select(which).is_distinct == distinct


def test_a_stratified_split_has_the_share_of_each_class(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["many", "few"]) as writer:
        for i in range(25):
            writer.write(image=jpeg(0, 2, 2), label=int(i % 5 == 0), key=f"{i}")
    dataset = stoker.open(tmp_path / "out")
    # Of 20 samples of the first class, and of 5 of the second.
    for fraction, counts in ((0.2, [4, 1]), (0.5, [10, 2]), (0.9, [18, 4]), (0, [0, 0]), (1, [20, 5])):
        first, second = dataset.split(fraction, seed=3)
        assert np.bincount(first.labels, minlength=2).tolist() == counts
        assert sorted([*first.rows, *second.rows]) == list(range(25))
    first = dataset.split(0.5, seed=3)[0]
    assert set(dataset.split(0.2, seed=3)[0].rows) < set(first.rows)
    assert set(dataset.split(0.5, seed=4)[0].rows) != set(first.rows)
    assert [len(part) for part in dataset.select([]).split(0.5)] == [0, 0]
