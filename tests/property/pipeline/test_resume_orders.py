"""Orders stopped anywhere and resumed on any number of ranks: each draw comes once, at the same cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from stoker.pipeline.order import orders as permutation
from stoker.pipeline.order.orders import (
    BlockShuffle,
    FullShuffle,
    Order,
    Repeat,
    Sequential,
    Stream,
    WeightedDraws,
    WeightedShuffle,
)
from stoker.pipeline.order.quotas import Balanced, MixedOrder, QuotaSchedule, apportion_draws
from stoker.pipeline.order.schedule import OrderedSteps

Int64 = npt.NDArray[np.int64]

WORLDS = (1, 2, 3, 4, 8)
ROWS = 53
COLUMN = np.arange(ROWS) % 5 + 1
ORDERS: dict[str, Order] = {
    "in order": Sequential(ROWS),
    "shuffled": FullShuffle(ROWS, 3),
    "blocks shuffled": BlockShuffle(ROWS, 3, block=4, window=3),
    "weighted": WeightedDraws(60, 3, COLUMN),
    "weighted, each once": WeightedShuffle(40, 3, COLUMN),
    "classes balanced": Balanced(60, 3, COLUMN),
    "repeated": Repeat(FullShuffle(ROWS, 3), 3, 70),
    "mixed": MixedOrder(
        QuotaSchedule(np.array([30, 20, 10]), np.array([7, 40, 6]), 3),
        (FullShuffle(7, 3), Sequential(40), FullShuffle(6, 3)),
    ),
    "stream": Stream(FullShuffle(ROWS, 3), 72),
}


def ranks_of(n: int, batch_size: int, world_size: int, last_batch: Any, start: int = 0) -> list[OrderedSteps]:
    return [OrderedSteps(n, batch_size, rank, world_size, last_batch, start) for rank in range(world_size)]


def positions_of(ranks: list[OrderedSteps], first: int, last: int) -> Int64:
    """Positions that all ranks together get in steps first..last-1, without padding."""
    drawn = [rank.draws(step) for step in range(first, last) for rank in ranks]
    return np.concatenate([np.empty(0, np.int64), *(positions[mask] for positions, mask in drawn)])


def resumptions(n: int, before: int, after: int, last_batch: Any) -> Iterator[tuple[Int64, int]]:
    """For a stop after every step: the positions drawn before it and after it, and the last one to come."""
    ranks = ranks_of(n, 4, before, last_batch)
    for stop in range(len(ranks[0]) + 1):
        starts = {rank.consumed(stop) for rank in ranks}
        assert len(starts) == 1, "every rank saves the same position"
        start = starts.pop()
        others = ranks_of(n, 3, after, last_batch, start)
        left_out = (n - start) % (3 * after) if last_batch == "drop" else 0
        drawn = np.concatenate([positions_of(ranks, 0, stop), positions_of(others, 0, len(others[0]))])
        yield drawn, n - left_out


@pytest.mark.parametrize("last_batch", ["drop", "pad", "partial"])
@pytest.mark.parametrize("name", ORDERS)
def test_every_stop_and_resume_on_other_ranks_draws_each_sample_once(name: str, last_batch: Any) -> None:
    """With ``-s`` it prints a table of stops, and of samples lost and repeated."""
    order, epoch = ORDERS[name], 2
    whole = order.positions(epoch, np.arange(order.n))
    lines = []
    for before in WORLDS:
        cells = []
        for after in WORLDS:
            stops = lost = repeated = 0
            for drawn, end in resumptions(order.n, before, after, last_batch):
                rows, expected = (
                    Counter(order.positions(epoch, drawn).tolist()),
                    Counter(whole[:end].tolist()),
                )
                stops += 1
                lost += (expected - rows).total()
                repeated += (rows - expected).total()
                assert np.array_equal(np.sort(drawn), np.arange(end)), "each draw once, not only each row"
            assert (lost, repeated) == (0, 0), f"from {before} to {after} ranks"
            cells.append(f"{stops:3} / {lost} / {repeated}")
        lines.append(f"  {before} rank{'s' * (before > 1):1}  " + "   ".join(cells))
    print(f"\n{name}, last_batch={last_batch}: stops / samples lost / samples repeated")
    print("  resumed on " + "   ".join(f"{after:2} rank{'s' * (after > 1):1}  " for after in WORLDS))
    print("\n".join(lines))


BILLION = 10**9
LONG_ORDERS = [
    Sequential(BILLION),
    FullShuffle(BILLION, 3),
    BlockShuffle(BILLION, 3),
    WeightedDraws(BILLION, 3, COLUMN),
    Balanced(BILLION, 3, COLUMN),
    Repeat(FullShuffle(BILLION, 3), 3, BILLION),
    MixedOrder(
        QuotaSchedule(apportion_draws([2, 1], BILLION), np.array([BILLION, 50]), 3),
        (FullShuffle(BILLION, 3), Sequential(50)),
    ),
    Stream(FullShuffle(10**7, 3), BILLION),
]


@pytest.mark.parametrize("position", [0, BILLION // 3, BILLION - 40])
@pytest.mark.parametrize("order", LONG_ORDERS, ids=lambda order: type(order).__name__)
def test_a_resume_computes_as_much_at_any_position(
    order: Order, position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []
    network = permutation._network

    def counting(x: Int64, *rest: Any) -> Int64:
        computed.append(len(x))
        return network(x, *rest)

    # Nothing public counts the work, and its time depends on the machine.
    monkeypatch.setattr(permutation, "_network", counting)
    schedule = OrderedSteps(order.n, 8, rank=1, world_size=2, start=position)
    assert len(order.positions(7, schedule.draws(0)[0])) == 8
    # Eight draws, two permutations each, and each walks fewer than two steps more on average.
    assert sum(computed) < 8 * 2 * 6
