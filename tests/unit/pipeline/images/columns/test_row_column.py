"""The column ``row``: it numbers the samples as the loader's dataset does, whatever that is made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker import ImageLoader, Repeated, Weighted


@pytest.fixture
def sources(make_dataset: Callable[..., Path], make_jpeg: Callable[..., bytes]) -> dict[str, Any]:
    """A dataset of twelve samples in three classes, and selections and mixtures of it and a smaller one."""
    dataset = stoker.open(make_dataset("tfrecord", [make_jpeg(i) for i in range(12)], name="twelve"))
    small = stoker.open(make_dataset("lmdb", [make_jpeg(i) for i in range(5)], name="five"))
    selected = dataset.select("label != 1")
    return {
        "whole": dataset,
        "condition": selected,
        "repeats": dataset.select([7, 2, 2, 11]),
        "selection of a selection": selected.select([6, 0, 5]),
        "split": dataset.split(0.5)[1],
        "mixture": stoker.mix([(dataset, 1), (small, 1)]),
        "mixture of selections": stoker.mix([(selected, 1), (small.select([4, 1]), 1)]),
    }


@pytest.mark.parametrize("options", [{}, {"sampler": Repeated(2)}, {"shuffle": True, "steps_per_epoch": 5}])
def test_keys_and_classes_of_a_batch_are_those_of_its_rows(
    load: Callable[..., ImageLoader], sources: dict[str, Any], options: dict[str, Any]
) -> None:
    for name, source in sources.items():
        loader = load(dataset=source, batch_size=4, columns=("row", "key", "label"), **options)
        dataset = loader.dataset
        for batch in loader:
            assert dataset.keys(batch.row) == batch.key, name
            assert dataset.labels[batch.row].tolist() == batch.label.tolist(), name


def test_a_sampler_weighs_samples_by_their_rows(
    load: Callable[..., ImageLoader], sources: dict[str, Any]
) -> None:
    selected = sources["condition"]
    weights = [key in ("k3", "k11") for key in selected.keys(range(len(selected)))]
    loader = load(dataset=selected, sampler=Weighted(weights, samples=20), columns=("row", "key"))
    for batch in loader:
        assert selected.keys(batch.row) == batch.key
        assert set(batch.key) == {"k3", "k11"}


def test_rows_choose_their_samples_and_find_them_in_the_index(
    load: Callable[..., ImageLoader], sources: dict[str, Any]
) -> None:
    selected = sources["repeats"]
    (batch,) = load(dataset=selected, columns=("row", "key"))
    assert batch.row.tolist() == [0, 1, 2, 3]
    assert selected.select(batch.row[1:3]).keys([0, 1]) == batch.key[1:3]
    assert sources["whole"].keys(selected.rows[batch.row]) == batch.key
