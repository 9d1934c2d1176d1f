"""The iterator over one pass: what it counts, and how it ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.errors import LoaderClosedError
from stoker.pipeline.execution.passes import EpochIterator, Progress
from stoker.pipeline.execution.pipeline import FinishedBatch
from stoker.pipeline.execution.stats import StatsTotals
from stoker.pipeline.order.schedule import OrderedSteps


class Batches:
    """A stand-in for a prefetcher."""

    def __init__(self, schedule: OrderedSteps) -> None:
        self.sizes = iter([len(schedule.draws(step)[0]) for step in range(len(schedule))])
        self.handed_out = 0
        self.closed = 0
        self.kept = 0

    def check_process(self) -> None:
        pass

    def __next__(self) -> Any:
        size = next(self.sizes)
        self.handed_out += 1
        return FinishedBatch((np.zeros(size),), size)

    def close(self) -> None:
        self.closed += 1
        self.sizes = iter(())

    def keep(self, batches: Batches, progress: Progress) -> None:
        assert batches is self
        assert progress.received == len(progress.steps)
        self.kept += 1


SCHEDULE = OrderedSteps(10, 2, 0, 2, start=1)


def begin(
    schedule: OrderedSteps = SCHEDULE, totals: StatsTotals | None = None
) -> tuple[EpochIterator, Progress, Batches]:
    progress = Progress(3, schedule)
    batches = Batches(schedule)
    return EpochIterator(batches.keep, batches, progress, totals or StatsTotals()), progress, batches


def test_a_pass_counts_received_batches() -> None:
    totals = StatsTotals()
    running, progress, _ = begin(totals=totals)
    for received, position in enumerate((1, 5, 9)):
        state = progress.state({"k": 1})
        assert (state.epoch, state.position, state.identity) == (3, position, {"k": 1})
        assert (totals.batches, totals.samples) == (received, 2 * received)
        next(running)
    assert totals.samples == 5
    assert (progress.state({}).epoch, progress.state({}).position) == (4, 0)
    with pytest.raises(StopIteration):
        next(running)


def test_an_ended_pass_raises_an_error() -> None:
    running, progress, batches = begin()
    next(running)
    running.end()
    running.end()
    assert batches.closed == 2
    with pytest.raises(LoaderClosedError, match="ended by close"):
        next(running)
    assert progress.state({}).position == 5


def test_a_complete_pass_returns_its_prefetcher_and_takes_no_more_batches() -> None:
    running, _, batches = begin()
    assert len(list(running)) == 3
    running.end()
    batches.sizes = iter([5])  # of the next pass
    assert list(running) == []
    assert (batches.kept, batches.closed) == (1, 0)


def test_a_pass_whose_end_was_not_received_is_closed() -> None:
    running, _, batches = begin()
    for _ in range(3):
        next(running)
    running.end()
    assert list(running) == []
    assert batches.closed == 1


def test_an_empty_pass_is_a_whole_epoch() -> None:
    running, progress, _ = begin(OrderedSteps(10, 20, last_batch="drop"))
    assert list(running) == []
    assert progress.state({}).epoch == 4
