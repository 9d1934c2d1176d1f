"""Draws of a text loader: samplers, mixtures, streams, selections, and balanced ranks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import WORDS
from helpers.shards import load, rows, same, write

import stoker
from stoker import BlockShuffle, ClassBalanced, Repeated, Weighted, mix
from stoker.errors import CheckpointError, ConfigError, DatasetError
from stoker.pipeline.order.mixture import Mixture
from stoker.pipeline.order.orders import Sequential


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    write(root := tmp_path_factory.mktemp("text"), "a", 60)
    return write(root, "b", 24, format="lmdb", seed=4).parent


@pytest.fixture
def mixture(folder: Path) -> Mixture:
    return mix([(folder / "a", 0.75), (folder / "b", 0.25)], samples=80)


def test_samples_are_drawn_by_weight_with_and_without_replacement(folder: Path) -> None:
    dataset = stoker.open(folder / "a")
    loader = load(dataset, sampler=Weighted("tokens_length", samples=3000))
    share = Counter(rows(loader))
    longest = np.argsort(dataset.column("tokens_length"))[-10:]
    assert 1.4 < sum(share[row] for row in longest.tolist()) / (3000 * 10 / 60) < 2.5
    weights = np.arange(60) % 2
    once = load(dataset, sampler=Weighted(weights, replacement=False))
    first, second = rows(once), rows(once)
    assert sorted(first) == sorted(second) == list(range(1, 60, 2))
    assert first != second


def test_classes_are_drawn_equally_often(folder: Path) -> None:
    classes = np.r_[np.zeros(50, int), np.ones(10, int)]
    loader = load(folder / "a", sampler=ClassBalanced(classes, samples=100))
    for _ in range(3):
        counts = Counter(rows(loader))
        assert sum(counts[row] for row in range(50)) == 50
        assert {counts[row] for row in range(50, 60)} == {5}
    with pytest.raises(DatasetError, match="the samples have none"):
        load(folder / "a", sampler=ClassBalanced())


def test_batches_of_a_sampler_come_in_random_order_of_lengths(folder: Path) -> None:
    loader = load(folder / "a", sampler=Weighted(np.ones(60)), columns=("input_ids",))
    widths = [batch.input_ids.shape[1] for batch in loader]
    assert len(set(widths)) == 3
    assert widths != sorted(widths), "not one bucket after the other"


def test_a_sampler_of_the_user_decides_the_draws(folder: Path) -> None:
    class FirstSamples:
        def __init__(self, n: int) -> None:
            self.n = n

        def order(self, dataset: Any, shuffled: Any, seed: int) -> Sequential:
            return Sequential(self.n)

    assert sorted(rows(load(folder / "a", sampler=FirstSamples(13)))) == list(range(13))
    whole = load(folder / "a", sampler=FirstSamples(60))
    assert sorted(rows(whole)) == list(range(60))
    assert same(list(load(folder / "a", shuffle=True)), list(load(folder / "a", sampler=FirstSamples(60))))


def test_a_mixture_has_exact_shares_and_a_column_dataset(folder: Path, mixture: Mixture) -> None:
    texts = {}
    for number, name in enumerate("ab"):
        for batch in load(folder / name, columns=("input_ids", "attention_mask", "row", "key")):
            for ids, mask, row, key in zip(*batch, strict=True):
                texts[number, int(row) + 60 * number] = ids[mask].tolist(), key
    columns = ("input_ids", "attention_mask", "row", "key", "dataset")
    loader = load(mixture, shuffle=True, columns=columns)
    drawn: Counter[tuple[int, int]] = Counter()
    for _ in range(6):
        epoch = []
        for batch in loader:
            for ids, mask, row, key, which in zip(*batch, strict=True):
                assert (ids[mask].tolist(), key) == texts[int(which), int(row)]
                epoch.append((int(which), int(row)))
        assert Counter(which for which, _ in epoch) == {0: 60, 1: 20}
        drawn.update(epoch)
    assert {drawn[0, row] for row in range(60)} == {6}
    assert {drawn[1, row] for row in range(60, 84)} == {5}
    assert loader.element_spec()[-1].dtype == "int64"


def test_datasets_with_different_fields_or_tokens_are_not_mixed(folder: Path, tmp_path: Path) -> None:
    words = write(tmp_path, "words", 9, tokenizer=WORDS)
    with pytest.raises(ConfigError, match="differ in tokenizer") as caught:
        mix([(folder / "a", 1), (words, 1)])
    assert caught.value.path == str(words)
    named = write(tmp_path, "named", 9, fields=("text",))
    with pytest.raises(ConfigError, match="differ in list of fields"):
        mix([(folder / "a", 1), (named, 1)])
    pytest.importorskip("tokenizers")
    again = write(tmp_path, "again", 9, tokenizer=words / "tokenizer.json")
    assert len(mix([(words, 1), (again, 1)])) == 18


def test_draws_do_not_depend_on_the_size_of_chunks(mixture: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(load(mixture))
    # The chunks of the product are longer than any epoch of a test.
    monkeypatch.setattr("stoker.pipeline.text.planner._CHUNK", 7)
    assert rows(load(mixture)) == whole


def test_a_mixture_without_shuffle_alternates_its_datasets(mixture: Mixture) -> None:
    batches = load(mixture, shuffle=False, buckets=1, columns=("dataset",))
    drawn = np.concatenate([batch.dataset for batch in batches])
    assert [4 < part.sum() < 16 for part in np.split(drawn, 2)] == [True, True]


def test_epochs_of_a_stream_have_the_length_of_their_samples(mixture: Mixture) -> None:
    loader = load(mixture, samples_per_epoch=4 * 9, last_batch="drop", shuffle=True)
    assert loader.has_equal_epochs
    assert [len(list(loader)) for _ in range(5)] == [9] * 5 == [len(loader)] * 5
    varying = load(mixture, samples_per_epoch=36, shuffle=True, max_tokens=90)
    assert not varying.has_equal_epochs
    for _ in range(4):
        expected = len(varying)
        assert len(list(varying)) == expected


def test_a_state_of_other_draws_is_refused(folder: Path, mixture: Mixture) -> None:
    good = load(mixture, shuffle=True).state_dict()
    for message, options in {
        "samples_per_epoch was None and is 9": {"samples_per_epoch": 9},
        "balance was None and is 'tokens'": {"balance": "tokens"},
        "shuffle was True and is False": {"shuffle": False},
    }.items():
        with pytest.raises(CheckpointError, match=message):
            load(mixture, **{"shuffle": True, **options}).load_state_dict(good)
    other = mix([(folder / "a", 0.5), (folder / "b", 0.5)], samples=80)
    with pytest.raises(CheckpointError, match=r"weights of the mixture were \[\[0, \[60, 20\]\]\]"):
        load(other, shuffle=True).load_state_dict(good)
    weighted = load(folder / "a", sampler=Weighted(np.arange(60)))
    with pytest.raises(CheckpointError, match=r'order was "WeightedDraws\(.*" and is "Weighted'):
        load(folder / "a", sampler=Weighted(np.arange(60) + 1)).load_state_dict(weighted.state_dict())
    with pytest.raises(CheckpointError, match=r'order was "WeightedDraws\(.* and is None'):
        load(folder / "a", shuffle=True).load_state_dict(weighted.state_dict())


@pytest.mark.parametrize(("balance", "pack"), [("tokens", None), ("attention", None), ("attention", 60)])
def test_balance_gives_ranks_about_equal_work(folder: Path, balance: Any, pack: int | None) -> None:
    def uneven(**options: Any) -> float:
        """How much more the rank with most has than the mean, over all full steps."""
        columns = ("cu_seqlens", "segment_ids") if pack else ("lengths",)
        shared = {"shuffle": True, "batch_size": 8 if not pack else 2, "pack": pack, "last_batch": "drop"}
        ranks = [
            load(folder / "a", rank=r, world_size=2, columns=columns, **shared, **options) for r in (0, 1)
        ]
        ratios = []
        for step in zip(*ranks, strict=True):
            works = [work(batch) for batch in step]
            ratios.append(max(works) / np.mean(works))
        return float(np.mean(ratios))

    def work(batch: Any) -> int:
        if not pack:
            lengths = batch.lengths
        else:  # of each sequence, without padding
            lengths = np.concatenate([np.bincount(row)[1:] for row in batch.segment_ids])
        return int((lengths**2 if balance == "attention" else lengths).sum())

    assert uneven(balance=balance) < uneven() - 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": Repeated(2)}, "Repeated keeps the draws of a sample in one batch"),
        ({"sampler": Weighted(np.ones(60)), "shuffle": True}, "draws at random itself"),
        ({"sampler": Weighted(np.ones(3))}, "one number a sample, 60"),
        ({"shuffle": BlockShuffle()}, "shuffle must be True or False"),
        ({"samples_per_epoch": 0}, "samples of an epoch must be at least 1, found 0"),
        ({"balance": "time"}, "balance must be one of"),
        (
            {"sampler": Weighted(np.ones(60)), "pack": 20},
            r"sample \d+ has \[\d+\] tokens, and the most are \[20\]",
        ),
        ({"pack": 40, "columns": ("dataset",)}, "no 'dataset'"),
    ],
)
def test_wrong_arguments_are_refused(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(folder / "a", **options)
