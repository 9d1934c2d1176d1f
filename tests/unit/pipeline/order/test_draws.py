"""Orders by weight and in equal quotas: their statistics and their caches."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from stoker.pipeline.order import orders as draws
from stoker.pipeline.order.orders import WeightedDraws, WeightedShuffle
from stoker.pipeline.order.quotas import Balanced
from stoker.random import hash_words, unit_interval

WEIGHTS = np.array([0, 1, 2, 0, 5, 2.5, 0.5, 0])
DRAWN = np.flatnonzero(WEIGHTS)


def chi_squared(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_draws_with_replacement_are_in_proportion_to_weights() -> None:
    n = 50_000
    rows = WeightedDraws(n, 3, WEIGHTS).positions(2, np.arange(n))
    counts = np.bincount(rows, minlength=8)
    assert counts[WEIGHTS == 0].tolist() == [0, 0, 0]
    # 4 degrees of freedom: the 0.999 quantile is 18.5
    assert chi_squared(counts[DRAWN], n * WEIGHTS[DRAWN] / WEIGHTS.sum()) < 18.5


def test_draws_with_replacement_are_independent() -> None:
    n = 50_000
    rows = WeightedDraws(n, 3, np.ones(4)).positions(0, np.arange(n))
    pairs = np.bincount(4 * rows[:-1] + rows[1:], minlength=16)
    # 15 degrees of freedom: the 0.999 quantile is 37.7
    assert chi_squared(pairs, np.full(16, (n - 1) / 16)) < 37.7


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


def test_equal_weights_draw_in_the_order_of_their_random_numbers() -> None:
    n = 40_000  # more than two chunks, in which the numbers are computed
    numbers = unit_interval(hash_words((1, 2), np.arange(n)))
    positions = WeightedShuffle(n, 1, np.ones(n)).positions(2, np.arange(n))
    assert np.array_equal(positions, np.argsort(numbers))


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


def test_quotas_differ_by_one_at_most() -> None:
    rows = Balanced(53, 0, np.arange(53) % 7).positions(0, np.arange(53))
    assert sorted(np.bincount(rows % 7).tolist()) == [7, 7, 7, 8, 8, 8, 8]


@pytest.mark.parametrize("kind", [WeightedDraws, WeightedShuffle, Balanced])
def test_orders_of_different_columns_differ_in_checkpoints(kind: type) -> None:
    order = kind(5, 3, WEIGHTS)
    assert repr(order) == repr(kind(5, 3, WEIGHTS.copy()))
    assert repr(order).startswith(f"{kind.__name__}(n=5, seed=3, digest='")
    assert repr(order) != repr(kind(5, 3, WEIGHTS[::-1]))
    assert len(repr(kind(5, 3, np.ones(10**6)))) < 80


# Checkpoints rely on orders: every version must draw the same.
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (WeightedDraws, "0b35cfbc587cfcb9"),
        (WeightedShuffle, "efd991f5a308af2c"),
        (Balanced, "5a53d673c832e5d8"),
    ],
)
def test_orders_do_not_change_between_versions(kind: type, expected: str) -> None:
    order = kind(400, -(2**70), np.arange(500) % 23 + 1)
    rows = order.positions(2**65, np.arange(400))
    assert hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16] == expected
