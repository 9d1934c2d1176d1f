"""Orders: known answers, limits, and statistics of shuffles."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

from stoker.errors import ConfigError
from stoker.pipeline.order import orders as draws
from stoker.pipeline.order.orders import (
    BlockShuffle,
    FullShuffle,
    Order,
    Permutation,
    Repeat,
    Sequential,
    Stream,
    WeightedDraws,
    WeightedShuffle,
    permute,
)
from stoker.pipeline.order.quotas import Balanced
from stoker.random import hash_words


def digest(numbers: np.ndarray) -> str:
    return hashlib.sha256(numbers.astype("<i8").tobytes()).hexdigest()[:16]


def chi_squared(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


COLUMN = np.arange(500) % 23 + 1
# Checkpoints rely on orders: every version must draw the same.
GOLDEN: list[tuple[Order, int, str]] = [
    (FullShuffle(1000, 0), 0, "b9a3ad5f72a8b6a7"),
    (FullShuffle(1000, 0), 1, "941e09bf5ad06558"),
    (FullShuffle(1000, 1), 0, "31bb3342703f81b1"),
    (FullShuffle(1000, -(2**70)), 2**65, "142a92be83246aed"),
    (FullShuffle(1 << 16, 7), 3, "8187e2c610c04b89"),
    (BlockShuffle(1000, 0, block=16, window=4), 0, "52d3b32956099fc7"),
    (BlockShuffle(1000, 5, block=7, window=3), 2, "335a2ff2a8b003e7"),
    (Sequential(1000), 9, "702746827e553786"),
    (WeightedDraws(400, -(2**70), COLUMN), 2**65, "0b35cfbc587cfcb9"),
    (WeightedShuffle(400, -(2**70), COLUMN), 2**65, "efd991f5a308af2c"),
    (Balanced(400, -(2**70), COLUMN), 2**65, "5a53d673c832e5d8"),
]


@pytest.mark.parametrize(("order", "epoch", "expected"), GOLDEN)
def test_orders_do_not_change_between_versions(order: Order, epoch: int, expected: str) -> None:
    assert digest(order.positions(epoch, np.arange(order.n))) == expected


def test_permutations_do_not_change_between_versions() -> None:
    elements = np.arange(1000)
    images = permute(elements, elements + 1, hash_words((-(2**70), 3), elements))
    assert digest(images) == "25912cae7857c0c2"


def test_every_permutation_of_four_is_drawn_about_equally_often() -> None:
    seeds = 2400
    keys = np.repeat(hash_words((), np.arange(seeds)), 4)
    images = permute(np.tile(np.arange(4), seeds), np.full(4 * seeds, 4), keys)
    for drawn in (
        [tuple(FullShuffle(4, seed).positions(0, np.arange(4))) for seed in range(seeds)],
        [tuple(row) for row in images.reshape(seeds, 4).tolist()],
    ):
        counts = np.array([drawn.count(p) for p in itertools.permutations(range(4))])
        # 23 degrees of freedom: the 0.999 quantile is 49.7
        assert chi_squared(counts, np.full(24, 100)) < 49.7


def test_epochs_and_seeds_have_different_orders_without_neighbours() -> None:
    orders = [
        FullShuffle(500, seed).positions(epoch, np.arange(500)) for seed in range(8) for epoch in range(8)
    ]
    assert len({order.tobytes() for order in orders}) == len(orders)
    # Two random neighbours of an order are expected to stay neighbours; many would show structure.
    assert np.mean([(np.abs(np.diff(order)) == 1).sum() for order in orders]) < 3


def test_the_cost_of_a_draw_does_not_depend_on_the_number_of_samples() -> None:
    n = 10**9 + 7
    order = FullShuffle(n, 1)
    positions = np.array([0, 1, n // 2, n - 1])
    rows = order.positions(4, positions)
    assert len(set(rows.tolist())) == 4
    assert rows.min() >= 0
    assert rows.max() < n
    assert np.array_equal(Permutation(n, 1, 4).inverse(rows), positions)


def test_empty_blocks_and_permutations_are_refused() -> None:
    for name in ("block", "window"):
        with pytest.raises(ConfigError, match=f"{name} must be at least 1, found 0"):
            BlockShuffle(10, **{name: 0})
    with pytest.raises(ConfigError, match="n must be at least 1, found 0"):
        Permutation(0)


def test_a_window_has_whole_blocks_only() -> None:
    order = BlockShuffle(1000, 3, block=10, window=5)
    rows = order.positions(0, np.arange(1000)).reshape(20, 50)
    for window in rows:
        blocks, counts = np.unique(window // 10, return_counts=True)
        assert len(blocks) == 5
        assert (counts == 10).all()
    assert not np.array_equal(np.unique(rows[0] // 10), np.arange(5)), "blocks are permuted"
    assert not np.array_equal(np.sort(rows[0]), rows[0]), "a window is shuffled"


@pytest.mark.parametrize("epoch", [0, 5, 2**62, 2**70 + 1])
def test_draws_of_a_stream_are_numbered_across_epochs(epoch: int) -> None:
    stream = Stream(Sequential(13), 40)
    numbers = np.concatenate([stream.stream_draws(epoch + i, np.arange(40)) for i in range(3)])
    assert (np.diff(numbers) == 1).all()
    assert numbers[0] == epoch * 40 % 2**62, "for epochs of any length"


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("order", [FullShuffle(7), Stream(FullShuffle(7), 7)])
def test_an_order_is_distinct_without_repeats_and_streams(order: Order, times: int) -> None:
    assert Repeat(order, times, 7).distinct is (times == 1 and isinstance(order, FullShuffle))


@pytest.mark.parametrize("size", [2**53 - 1, 2**53 + 1, 2**60 - 1, 2**62])
def test_large_domains_are_permuted_within_their_size(size: int) -> None:
    elements = np.array([0, 1, size // 2, size - 1])
    images = permute(elements, np.full(4, size), np.full(4, 5, np.uint64))
    assert len(set(images.tolist())) == 4
    assert images.min() >= 0
    assert images.max() < size


WEIGHTS = np.array([0, 1, 2, 0, 5, 2.5, 0.5, 0])
DRAWN = np.flatnonzero(WEIGHTS)


def test_draws_with_replacement_are_in_proportion_to_weights() -> None:
    n = 50_000
    rows = WeightedDraws(n, 3, WEIGHTS).positions(2, np.arange(n))
    counts = np.bincount(rows, minlength=8)
    assert counts[WEIGHTS == 0].tolist() == [0, 0, 0]
    # 4 degrees of freedom: the 0.999 quantile is 18.5
    assert chi_squared(counts[DRAWN], n * WEIGHTS[DRAWN] / WEIGHTS.sum()) < 18.5


def test_the_largest_random_number_draws_the_last_position_with_a_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No seed is known that draws the largest number.
    monkeypatch.setattr(draws, "unit_interval", lambda words: np.linspace(0, 1, len(words)))
    rows = WeightedDraws(3, 0, WEIGHTS).positions(0, np.arange(3))
    assert rows.tolist() == [1, 4, 6]


def test_draws_without_replacement_are_in_proportion_to_the_remaining_weights() -> None:
    order, epochs = WeightedShuffle(5, 1, WEIGHTS), 5000
    drawn = np.array([order.positions(epoch, np.arange(5)) for epoch in range(epochs)])
    assert (np.sort(drawn, axis=1) == DRAWN).all()
    shares = WEIGHTS[DRAWN] / WEIGHTS.sum()
    assert chi_squared(np.bincount(drawn[:, 0], minlength=8)[DRAWN], epochs * shares) < 18.5
    second = np.zeros(8)
    for first, share in zip(DRAWN, shares, strict=True):
        rest = DRAWN[first != DRAWN]
        second[rest] += share * WEIGHTS[rest] / WEIGHTS[rest].sum()
    assert chi_squared(np.bincount(drawn[:, 1], minlength=8)[DRAWN], epochs * second[DRAWN]) < 18.5


def test_the_orders_of_two_epochs_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_epochs = []
    sort = WeightedShuffle._whole_epoch
    # A cached order differs from a new one only in the time that it takes.
    monkeypatch.setattr(
        WeightedShuffle,
        "_whole_epoch",
        lambda self, epoch: (sorted_epochs.append(epoch), sort(self, epoch))[1],
    )
    order = WeightedShuffle(5, 1, WEIGHTS)
    for epoch in (0, 0, 1, 0, 1, 2, 1, 2, 0):
        assert order.positions(epoch, np.arange(5)).tolist() == sort(order, epoch).tolist()
    assert sorted_epochs == [0, 1, 2, 0]


def test_logarithms_are_exact_to_the_last_bits() -> None:
    # An order changes with an inexact logarithm only between processors.
    numbers = np.concatenate([np.random.default_rng(0).random(10_000), 2.0 ** -np.arange(54), [1 - 2**-53]])
    assert np.allclose(draws._log(numbers), np.log(numbers), rtol=1e-15, atol=0)


def test_classes_have_equal_quotas() -> None:
    classes = np.repeat([7, -2, 5], [50, 3, 1])
    order = Balanced(90, 4, classes)
    epochs = [order.positions(epoch, np.arange(90)) for epoch in range(5)]
    for rows in epochs:
        assert [int((classes[rows] == label).sum()) for label in (7, -2, 5)] == [30, 30, 30]
    counts = np.bincount(np.concatenate(epochs), minlength=54)
    assert counts[:50].tolist() == [3] * 50, "150 draws of 50 samples: three rounds"
    assert counts[50:53].tolist() == [50] * 3
    assert counts[53] == 150
    first = [row for row in epochs[0] if row < 50]
    assert first != sorted(first), "rounds are shuffled"
    cycles = [[row for row in rows if 50 <= row < 53] for rows in epochs]
    assert len({tuple(cycle[i : i + 3]) for cycle in cycles for i in range(0, 30, 3)}) > 3, (
        "each in another order"
    )


@pytest.mark.parametrize("kind", [WeightedDraws, WeightedShuffle, Balanced])
def test_orders_of_different_columns_differ_in_checkpoints(kind: type) -> None:
    order = kind(5, 3, WEIGHTS)
    assert repr(order) == repr(kind(5, 3, WEIGHTS.copy()))
    assert repr(order).startswith(f"{kind.__name__}(n=5, seed=3, digest='")
    assert repr(order) != repr(kind(5, 3, WEIGHTS[::-1]))
    assert len(repr(kind(5, 3, np.ones(10**6)))) < 80
