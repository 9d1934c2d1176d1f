"""Statistics and traces of a loader's own work, and their publishing to monitors."""

from __future__ import annotations

import os
import weakref
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from stoker.errors import ConfigError

from .publishing import publish_stats
from .ranks import Process
from .stats import Counters, Stats, StatsTotals, Traffic
from .tracing import traced


class Observed:
    """The base of a loader that measures where its time goes."""

    _totals: StatsTotals
    _ranks: Process

    def stats(self, since: Literal["start", "pass", "last"] = "start") -> Stats:
        """Return counts of what was loaded, and where the time went.

        Args:
            since: "start" is the beginning of the first pass, "pass" that of the latest pass, and "last" the
                last call with "last": call it every hundred steps for figures of these.

        Raises:
            ConfigError: ``since`` is none of these.
        """
        if since not in ("start", "pass", "last"):
            raise ConfigError(f"since must be 'start', 'pass' or 'last', found {since!r}")
        stats = self._totals.stats(since, self._counters())
        ranks = self._ranks
        stats = replace(stats, ready=self._ready_batches(), rank=ranks.rank, world_size=ranks.world_size)
        stats = replace(stats, stores=self._stores())
        if (traffic := self._traffic()) is None:
            return stats
        return replace(stats, makers=traffic.makers(), made_again=traffic.repeated)

    def publish(self, target: Any, step: int | None = None) -> None:
        """Hand the statistics to a monitor.

        Args:
            target: ``SummaryWriter`` of TensorBoard or of PyTorch: figures are written at each call. Registry
                of prometheus_client, or meter of OpenTelemetry: one call is enough, and figures are read when
                they are exported. Logger of Python's logging: a line at level INFO at each call.
            step: Step of the training, for TensorBoard.

        Raises:
            ConfigError: The target is none of those.
        """
        publish_stats(target, weakref.WeakMethod(self.stats), step)

    def trace(self, path: str | os.PathLike[str], profiler: Any = None) -> AbstractContextManager[None]:
        """Write a trace of the loader's work in the block, for https://ui.perfetto.dev.

        The file has the Trace Event Format of Chrome. One track shows when the consumer's thread waits for
        batches, another one the stages of ``stats().producer`` in the loader's thread. Each thread of the
        engine "native" has a track with the stages of each sample: "read", "decode" and "augment". The last
        two alternate by rows, and the trace shows one after the other.

        Args:
            path: File to write, such as ``trace.json``.
            profiler: A ``torch.profiler.profile`` that has stopped when the block ends. The file then also
                has its events, on the same clock, and names the stages ``stoker.read`` and so on: ``with
                loader.trace("trace.json", profiler=profiler), profiler: ...``

        Raises:
            ConfigError: The profiler is not PyTorch's.
        """
        if profiler is not None and not hasattr(profiler, "export_chrome_trace"):
            raise ConfigError(
                f"profiler must be a torch.profiler.profile, found {type(profiler).__name__}",
                hint="Give that of torch.profiler.profile(), or leave profiler out.",
            )
        return traced(self._totals.worker, Path(path), profiler)

    def _counters(self) -> Counters:
        """Counts of the cache and the storage."""
        return Counters()

    def _stores(self) -> tuple[str, ...]:
        """Folder or URL of each dataset."""
        return ()

    def _traffic(self) -> Traffic | None:
        """Counts of the makers of batches; None if there are no workers."""
        return None

    def _ready_batches(self) -> int:
        """Batches that lie ready."""
        return 0
