"""One run of a conversion: its plan, the runner that makes its shards, and its progress.

:mod:`.execution` puts a run together; :mod:`.runners` and :mod:`.targets` take part in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from .plan import ConversionPlan
from .shards.planned_shard import ShardContext
from .shards.shard_file import ShardResult
from .targets.loss import check_loss

Progress = Callable[[int, int, int, str], None]
"""The user's callback. The converting thread calls it with the samples done, the samples in all, the source
bytes done, and the stage: listing, converting, publishing."""


def no_progress(done: int, total: int, size: int, stage: str) -> None:
    """Ignore the progress: the default."""


ShardMaker = Callable[[ConversionPlan, int, ShardContext | None], ShardResult]
"""Makes a shard of a plan, given by its number, and keeps it in the unfinished conversion at its target. The
context is that of a runner on this machine; None for other runners."""


class ProgressCounter:
    """Counts the samples of a conversion that are done.

    Any thread may add to it; the converting thread alone reports.
    """

    def __init__(self, plan: ConversionPlan, missing: Sequence[int], report: Progress) -> None:
        to_make = set(missing)
        finished = [shard.rows for number, shard in enumerate(plan.shards) if number not in to_make]
        self._lock = threading.Lock()
        self._total = len(plan.listing)
        self._done = sum(len(rows) for rows in finished)
        self._bytes = sum(int(plan.listing.bytes[rows].sum()) for rows in finished)
        self._report = report
        self.converted = 0

    def add(self, samples: int, size: int) -> None:
        """Count samples, which have ``size`` bytes in the source, as done."""
        with self._lock:
            self._done += samples
            self._bytes += size
            self.converted += samples

    def show(self, stage: str) -> None:
        """Report the progress."""
        self._report(self._done, self._total, self._bytes, stage)


Runner = Callable[[ConversionPlan, ShardMaker, Sequence[int], ProgressCounter], None]
"""Makes the missing shards of a plan; raises the error of the first shard that fails."""


@dataclass
class ConversionRun:
    """A plan that is being converted."""

    plan: ConversionPlan  # The plan
    runner: Runner  # Makes its shards
    report: Progress  # Receives the progress
    # Largest share of the source that may be left out, see :func:`.targets.loss.check_loss`
    allow_loss: Fraction | None = None
    converted: int = 0  # Samples that were converted, once :meth:`make` has ended

    def make(self, maker: ShardMaker, missing: Sequence[int]) -> None:
        """Make the shards of these numbers."""
        counter = ProgressCounter(self.plan, missing, self.report)
        try:
            self.runner(self.plan, maker, missing, counter)
        finally:
            self.converted = counter.converted
        counter.show("publishing")

    def check_loss(self, results: Sequence[ShardResult]) -> None:
        """Raise SourceError if too much of the source is left out of the shards with these results."""
        check_loss(self.plan.listing, self.allow_loss, results)
