"""Ctrl-C at every point in the code of a loader: it can go on or be closed, and nothing hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.processes import ends, interrupted_everywhere

from stoker import ImageLoader
from stoker.augment import Resize
from stoker.errors import LoaderClosedError
from stoker.pipeline.execution.passes import EpochIterator, Prefetcher, Progress
from stoker.pipeline.execution.pipeline import FinishedBatch
from stoker.pipeline.execution.stats import StatsTotals
from stoker.pipeline.order.schedule import OrderedSteps

# An interrupt inside a finaliser is reported, and otherwise ignored, by Python.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

STEPS = 3


class Numbers:
    """A producer whose batches are the numbers from ``first`` on."""

    max_in_flight = 1

    def __init__(self, first: int) -> None:
        self._started = self._finished = first
        self._end = first + STEPS

    def start(self) -> bool:
        self._started += 1
        return self._started <= self._end

    def finish(self) -> FinishedBatch:
        self._finished += 1
        return FinishedBatch(self._finished - 1, 1)


def passes(depth: int) -> tuple[Prefetcher, Callable[[], tuple[EpochIterator, Progress]]]:
    """A prefetcher of two passes, and a function that begins the next pass."""
    batches: Prefetcher = Prefetcher([Numbers(0), Numbers(STEPS)], depth, StatsTotals())
    batches.worker.start()

    def begin() -> tuple[EpochIterator, Progress]:
        progress = Progress(0, OrderedSteps(STEPS, 1))
        return EpochIterator(lambda batches, progress: None, batches, progress, StatsTotals()), progress

    return batches, begin


@pytest.mark.parametrize("depth", [1, 3])
def test_a_pass_can_go_on_after_an_interrupt(depth: int) -> None:
    """At most one batch is lost, which was on its way to the consumer, and it counts as received."""

    def make() -> tuple[Callable[[], None], Callable[[], None]]:
        batches, begin = passes(depth)
        running, progress = begin()
        received: list[int] = []

        def action() -> None:
            while (number := next(running, None)) is not None:
                received.append(number)

        def check() -> None:
            assert progress.received - len(received) in (0, 1)
            received.extend(running)
            assert len(received) >= STEPS - 1
            assert received == sorted(set(received) & set(range(STEPS)))
            assert progress.received == STEPS
            assert list(begin()[0]) == list(range(STEPS, 2 * STEPS)), "the next pass is whole"
            batches.close()

        return action, check

    interrupted_everywhere(make)


def load(folder: Path) -> ImageLoader:
    return ImageLoader(
        folder,
        batch_size=31,
        shuffle=True,
        transforms=[Resize((8, 8))],
        columns=("row",),
        engine="native",
        num_threads=1,
        prefetch=1,
    )


def rows(batches: Iterator[Any]) -> list[list[int]]:
    return [batch.row.tolist() for batch in batches]


@pytest.mark.parametrize("before", [0, 1])
def test_a_pass_that_was_interrupted_before_its_first_batch_is_begun_again(
    thumbnails: Path, before: int
) -> None:
    with load(thumbnails) as whole:
        epochs = [rows(iter(whole)) for _ in range(before + 1)]

    def make() -> tuple[Callable[[], Any], Callable[[], None]]:
        loader, held = load(thumbnails), []
        for _ in range(before):
            rows(iter(loader))

        def check() -> None:
            assert loader.state_dict()["epoch"] == before
            assert rows(iter(loader)) == epochs[-1]
            assert loader.state_dict()["epoch"] == before + 1
            loader.close()

        return lambda: held.append(iter(loader)), check

    interrupted_everywhere(make)


def test_an_interrupted_close_is_completed_by_the_next(
    thumbnails: Path, new_threads: Callable[[str], list[threading.Thread]]
) -> None:
    """This holds even if the start of the pass was interrupted, so that the consumer has no iterator."""

    def make() -> tuple[Callable[[], Any], Callable[[], None]]:
        loader, held = load(thumbnails), []

        def action() -> None:
            held.append(iter(loader))
            next(held[0])
            loader.close()

        def check() -> None:
            worker = loader._thread  # from outside, a thread that has not begun looks as if it ran
            loader.close()
            assert worker is None or worker._ended.is_set() or not worker._has_begun
            assert loader.pipeline.engine._python._shutdown  # type: ignore[attr-defined]  # of the native engine

        return action, check

    interrupted_everywhere(make)


def test_a_thread_that_waits_for_a_batch_gets_an_error_when_another_ends_the_pass() -> None:
    """Otherwise the thread would consider its batches a whole epoch."""
    batches, _ = passes(1)

    class Closes:
        """A prefetcher that another thread closes while this one waits for a batch."""

        handed_out = 0
        check_process = batches.check_process
        close = batches.close

        def __next__(self) -> Any:
            ends(running.end)
            return next(batches)

    totals = StatsTotals()
    running = EpochIterator(lambda *_: None, Closes(), Progress(0, OrderedSteps(STEPS, 1)), totals)  # type: ignore[arg-type]  # a stand-in
    with pytest.raises(LoaderClosedError, match="ended by close"):
        next(running)
