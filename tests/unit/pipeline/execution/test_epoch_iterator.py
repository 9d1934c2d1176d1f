"""One pass: what it counts, and what becomes of it when it ends early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.errors import LoaderClosedError
from stoker.pipeline.execution.batch import Finished
from stoker.pipeline.execution.epoch_iterator import Pass, Progress
from stoker.pipeline.execution.stats import Clock
from stoker.pipeline.order.epoch_order import Schedule


class Batches:
    """Stands in for a prefetcher."""

    def __init__(self, schedule: Schedule) -> None:
        self._sizes = iter([len(schedule.positions(step)[0]) for step in range(len(schedule))])
        self.handed_out = 0
        self.closed = 0
        self.kept = 0

    def check_process(self) -> None:
        pass

    def __next__(self) -> Any:
        size = next(self._sizes)
        self.handed_out += 1
        return Finished((np.zeros(size),), size)

    def close(self) -> None:
        self.closed += 1
        self._sizes = iter(())

    def keep(self, batches: Batches) -> None:
        assert batches is self
        self.kept += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def schedule() -> Schedule:
    return Schedule(10, 2, 0, 2, start=1)


def begin(schedule: Schedule, clock: Clock) -> tuple[Pass, Progress, Batches]:
    progress = Progress(3, schedule)
    batches = Batches(schedule)
    return Pass(batches.keep, batches, progress, clock), progress, batches


def test_it_counts_what_was_received(schedule: Schedule, clock: Clock) -> None:
    running, progress, _ = begin(schedule, clock)
    for received, position in enumerate((1, 5, 9)):
        state = progress.state({"k": 1})
        assert (state.epoch, state.position, state.identity) == (3, position, {"k": 1})
        assert (clock.batches, clock.samples) == (received, 2 * received)
        next(running)
    assert clock.samples == 5
    assert (progress.state({}).epoch, progress.state({}).position) == (4, 0)
    with pytest.raises(StopIteration):
        next(running)


def test_a_pass_that_was_ended_says_so(schedule: Schedule, clock: Clock) -> None:
    running, progress, batches = begin(schedule, clock)
    next(running)
    running.end()
    running.end()
    assert batches.closed == 2
    with pytest.raises(LoaderClosedError, match="ended by close"):
        next(running)
    assert progress.state({}).position == 5


def test_a_complete_pass_gives_its_prefetcher_back_and_takes_no_more(
    schedule: Schedule, clock: Clock
) -> None:
    running, _, batches = begin(schedule, clock)
    assert len(list(running)) == 3
    running.end()
    batches._sizes = iter([5])  # the next pass's
    assert list(running) == []
    assert (batches.kept, batches.closed) == (1, 0)


def test_a_pass_whose_end_was_not_asked_for_works_no_further(schedule: Schedule, clock: Clock) -> None:
    running, _, batches = begin(schedule, clock)
    for _ in range(3):
        next(running)
    running.end()
    assert list(running) == []
    assert batches.closed == 1


def test_an_empty_pass_is_a_whole_epoch(clock: Clock) -> None:
    running, progress, _ = begin(Schedule(10, 20, last_batch="drop"), clock)
    assert list(running) == []
    assert progress.state({}).epoch == 4
