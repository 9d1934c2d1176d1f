"""Producers of numbers for a prefetcher, which record what it asks them to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stoker.pipeline.execution.passes import Prefetcher
from stoker.pipeline.execution.stats import StatsTotals


class Numbers:
    """A producer of the batches 0..n-1 that can fail at one of them."""

    def __init__(
        self, n: int, limit: int = 2, bad_start: int | None = None, bad_finish: int | None = None
    ) -> None:
        self.max_in_flight = limit
        self.n = n
        self.started = 0
        self.finished = 0
        self.most_in_flight = 0
        self._bad_start = bad_start
        self._bad_finish = bad_finish

    def start(self) -> bool:
        if self.started == self._bad_start:
            raise ZeroDivisionError("start")
        if self.started == self.n:
            return False
        self.started += 1
        self.most_in_flight = max(self.most_in_flight, self.started - self.finished)
        return True

    def finish(self) -> int:
        number = self.finished
        self.finished += 1
        if number == self._bad_finish:
            raise ZeroDivisionError("finish")
        return number


def started(producers: Iterable[Any], depth: int, totals: StatsTotals) -> Prefetcher[Any]:
    batches: Prefetcher[Any] = Prefetcher(producers, depth, totals)
    batches.worker.start()
    return batches


class Groups(Numbers):
    """Starts its batches three at a time."""

    def start(self) -> int:
        return sum(super(Groups, self).start() for _ in range(3))
