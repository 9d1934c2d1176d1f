"""Selections by mask and by position, and splits by key."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import stoker
from stoker.errors import ConfigError

Make = Callable[..., Path]


def test_selecting_by_mask_and_by_position(make_dataset: Make, make_jpeg: Callable[..., bytes]) -> None:
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


def test_fingerprints_of_selections(make_dataset: Make) -> None:
    dataset = stoker.open(make_dataset())
    fingerprints = {
        d.fingerprint for d in (dataset, dataset.select([0]), dataset.select([1]), dataset.select([0, 1]))
    }
    assert len(fingerprints) == 4
    assert dataset.select([0]).fingerprint == dataset.select([0]).fingerprint
    other = stoker.open(make_dataset(payloads=[b"x"], name="other"))
    assert other.select([0]).fingerprint not in fingerprints


@pytest.mark.parametrize("which", [[True], [6], [-1], [0.5], [[0, 1]]])
def test_invalid_selections_are_refused(make_dataset: Make, which: list) -> None:
    with pytest.raises((ConfigError, IndexError)):
        stoker.open(make_dataset()).select(which)


def test_positions_are_checked(make_dataset: Make) -> None:
    dataset = stoker.open(make_dataset()).select([0, 1])
    for position in (-1, 2):
        with pytest.raises(IndexError, match="positions go from 0 to 1"):
            dataset.keys([position])
    for positions in ([0.5], [True]):  # which NumPy would round, and take for 1
        with pytest.raises(ConfigError, match="positions must be integers, not"):
            dataset.samples(positions)


def test_splits_are_stable_by_key(make_dataset: Make) -> None:
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


def test_fraction_is_checked(make_dataset: Make) -> None:
    with pytest.raises(ConfigError, match=r"from 0 to 1, not 1\.5"):
        stoker.open(make_dataset()).split(1.5)


def test_whether_a_sample_was_selected_twice(make_dataset: Callable[..., Path]) -> None:
    dataset = stoker.open(make_dataset())
    assert dataset.is_distinct
    for which, distinct in (
        ([], True),
        ([1, 2, 4], True),
        ([4, 1, 2], True),
        ([1, 1], False),
        ([1, 4, 1], False),
    ):
        assert dataset.select(which).is_distinct == distinct
