"""Orders: known answers, limits, and statistics of shuffles."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

from stoker.errors import ConfigError
from stoker.pipeline.order.orders import (
    BlockShuffle,
    FullShuffle,
    Order,
    Permutation,
    Repeat,
    Sequential,
    Stream,
)


def digest(order: Order, epoch: int) -> str:
    rows = order.positions(epoch, np.arange(order.n))
    return hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16]


# Checkpoints rely on orders: every version must draw the same.
GOLDEN = {
    (FullShuffle(1000, 0), 0): "b9a3ad5f72a8b6a7",
    (FullShuffle(1000, 0), 1): "941e09bf5ad06558",
    (FullShuffle(1000, 1), 0): "31bb3342703f81b1",
    (FullShuffle(1000, -(2**70)), 2**65): "142a92be83246aed",
    (FullShuffle(1 << 16, 7), 3): "8187e2c610c04b89",
    (BlockShuffle(1000, 0, block=16, window=4), 0): "52d3b32956099fc7",
    (BlockShuffle(1000, 5, block=7, window=3), 2): "335a2ff2a8b003e7",
    (Sequential(1000), 9): "702746827e553786",
}


@pytest.mark.parametrize(("order", "epoch", "expected"), [(*key, value) for key, value in GOLDEN.items()])
def test_orders_do_not_change_between_versions(order: Order, epoch: int, expected: str) -> None:
    assert digest(order, epoch) == expected


def test_every_permutation_of_four_is_drawn_about_equally_often() -> None:
    drawn = [tuple(FullShuffle(4, seed).positions(0, np.arange(4))) for seed in range(2400)]
    counts = np.array([drawn.count(p) for p in itertools.permutations(range(4))])
    # chi-squared with 23 degrees of freedom: the 0.999 quantile is 49.7
    assert ((counts - 100) ** 2 / 100).sum() < 49.7


def test_every_sample_is_equally_likely_at_every_draw() -> None:
    n, seeds = 13, 2000
    counts = np.zeros((n, n), np.int64)
    for seed in range(seeds):
        counts[np.arange(n), FullShuffle(n, seed).positions(0, np.arange(n))] += 1
    expected = seeds / n
    # 144 degrees of freedom: the 0.999 quantile is 201
    assert ((counts - expected) ** 2 / expected).sum() < 201


def test_neighbours_do_not_stay_together() -> None:
    rows = FullShuffle(100_000, 3).positions(0, np.arange(100_000))
    assert abs(np.corrcoef(rows[:-1], rows[1:])[0, 1]) < 0.015
    assert abs(np.corrcoef(np.arange(100_000), rows)[0, 1]) < 0.015
    # Of 100,000 random neighbours two are expected to stay neighbours; many would show structure.
    assert (np.abs(np.diff(rows)) == 1).sum() < 12


def test_epochs_and_seeds_have_different_orders() -> None:
    orders = [
        FullShuffle(500, seed).positions(epoch, np.arange(500)).tobytes()
        for seed in range(8)
        for epoch in range(8)
    ]
    assert len(set(orders)) == len(orders)


def test_the_cost_of_a_draw_does_not_depend_on_the_number_of_samples() -> None:
    n = 10**9 + 7
    order = FullShuffle(n, 1)
    positions = np.array([0, 1, n // 2, n - 1])
    rows = order.positions(4, positions)
    assert len(set(rows.tolist())) == 4
    assert rows.min() >= 0
    assert rows.max() < n
    assert np.array_equal(Permutation(n, 1, 4).inverse(rows), positions)


@pytest.mark.parametrize("n", [0, -1])
def test_refuses_an_empty_permutation(n: int) -> None:
    with pytest.raises(ConfigError, match=f"n must be at least 1, found {n}"):
        Permutation(n)


@pytest.mark.parametrize("name", ["block", "window"])
def test_refuses_empty_blocks_and_windows(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be at least 1, found 0"):
        BlockShuffle(10, **{name: 0})


def test_a_window_has_whole_blocks_only() -> None:
    order = BlockShuffle(1000, 3, block=10, window=5)
    rows = order.positions(0, np.arange(1000)).reshape(20, 50)
    for window in rows:
        blocks, counts = np.unique(window // 10, return_counts=True)
        assert len(blocks) == 5
        assert (counts == 10).all()
    assert not np.array_equal(np.unique(rows[0] // 10), np.arange(5)), "blocks are permuted"
    assert not np.array_equal(np.sort(rows[0]), rows[0]), "a window is shuffled"


def test_a_block_shuffle_with_one_window_over_all_is_a_full_shuffle() -> None:
    rows = BlockShuffle(997, 1, block=100, window=10).positions(0, np.arange(997))
    assert sorted(rows) == list(range(997))
    assert abs(np.corrcoef(np.arange(997), rows)[0, 1]) < 0.1


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
