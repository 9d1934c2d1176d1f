"""Images per second by batch size and by number of threads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from stoker.benchmarks.comparison.runner import ComparisonPlan, compare
from stoker.benchmarks.comparison.sources import open_source
from stoker.benchmarks.peers.base import PeerSettings
from stoker.benchmarks.report.machine import allowed_cores

__all__ = ["BATCH_SIZES", "THREADS", "sweep_batches", "sweep_threads"]

BATCH_SIZES = (1, 64, 1024)
THREADS = (1, 2, 4, 8, 16)
_BATCH_PEERS = ("stoker", "tfdata-plain", "dali", "torch")
_THREAD_PEERS = ("stoker", "dali")

Rates = dict[str, float | None]
"""Median images per second by loader; None where it has no figures."""


def sweep_batches(
    dataset: Path, rounds: int, num_threads: int | None, report: Callable[[str], None]
) -> dict[int, Rates]:
    """Return rates by batch size."""
    threads = num_threads or len(allowed_cores())
    settings = {size: PeerSettings(batch_size=size, num_threads=threads) for size in BATCH_SIZES}
    return {size: _rates(dataset, _BATCH_PEERS, given, rounds, report) for size, given in settings.items()}


def sweep_threads(dataset: Path, rounds: int, report: Callable[[str], None]) -> dict[int, Rates]:
    """Return rates by number of threads, all on the cores that this process may use."""
    settings = {threads: PeerSettings(num_threads=threads) for threads in THREADS}
    return {
        threads: _rates(dataset, _THREAD_PEERS, given, rounds, report) for threads, given in settings.items()
    }


def _rates(
    dataset: Path, peers: tuple[str, ...], settings: PeerSettings, rounds: int, report: Callable[[str], None]
) -> Rates:
    plan = ComparisonPlan(peers, settings, tuple(allowed_cores()), rounds)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        found = compare(open_source(dataset, Path(scratch)), plan, report)
    return {name: found.rate_of(name) for name in peers}
