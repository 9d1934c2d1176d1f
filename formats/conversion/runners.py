"""Runners, which make the shards of a plan on threads of this process or on a Ray cluster."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from stoker.errors import EngineError, StokerError, optional_import

from ..threads import TaskGroup
from .options import Progress
from .plan import ConversionPlan
from .shard import ShardContext, ShardResult


def no_progress(done: int, total: int, size: int, stage: str) -> None:
    """Ignore the progress: the default."""


ShardMaker = Callable[[ConversionPlan, int, ShardContext | None], ShardResult]
"""Makes a shard of a plan, given by its number, and keeps it in the unfinished conversion at its target. The
context comes from a runner on this machine; None for other runners."""


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


@dataclass(frozen=True)
class LocalRunner:
    """Makes a few shards at a time, whose samples are all encoded by one pool of threads.

    While one shard waits for the disk to sync, the pool encodes samples of the next one.
    """

    num_threads: int  # Threads that encode

    def __call__(
        self, plan: ConversionPlan, maker: ShardMaker, missing: Sequence[int], counter: ProgressCounter
    ) -> None:
        """Make the shards of these numbers."""
        stop = threading.Event()
        at_once = _shards_at_once(self.num_threads)
        with (
            ThreadPoolExecutor(self.num_threads, thread_name_prefix="stoker-encode") as encoders,
            ThreadPoolExecutor(at_once, thread_name_prefix="stoker-shard") as writers,
        ):
            context = ShardContext(encoders, self.num_threads + 2, counter.add, stop)
            shards = TaskGroup(writers)
            try:
                for number in missing:
                    shards.start(partial(maker, plan, number, context))
                shards.wait(partial(counter.show, "converting"))
            finally:
                # The pool shuts down first: a shard that is stopped must not make room for another one.
                writers.shutdown(wait=False, cancel_futures=True)
                stop.set()


def _shards_at_once(num_threads: int) -> int:
    return 2 + num_threads // 8


_RETRIES = 5  # of a shard whose worker or machine dies


_TICK = 0.2  # seconds between two reports of progress; an interrupt waits as long


@dataclass(frozen=True)
class RayRunner:
    """Makes each shard in its own task."""

    num_threads: int  # CPUs of the cluster that is started on this machine if there is no other cluster

    def __call__(
        self, plan: ConversionPlan, maker: ShardMaker, missing: Sequence[int], counter: ProgressCounter
    ) -> None:
        """Make the shards of these numbers."""
        with cluster(self.num_threads) as ray:
            # Ray keeps the plan in the shared memory of each machine, once for all tasks.
            shared = ray.put((plan, maker))
            task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_make)
            running: dict[Any, int] = {}
            try:
                for number in missing:
                    running[task.remote(shared, number)] = number
                while running:
                    done, _ = ray.wait(list(running), num_returns=1, timeout=_TICK)
                    for reference in done:
                        rows = plan.shards[running.pop(reference)].rows
                        _result(ray, reference)
                        counter.add(len(rows), int(plan.listing.bytes[rows].sum()))
                    counter.show("converting")
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)


_kept: dict[str, ConversionPlan] = {}
"""The plan of a worker's last shard, by its fingerprint: its encoder keeps images that it read ahead."""


def _make(shared: tuple[ConversionPlan, ShardMaker], number: int) -> StokerError | None:
    """Make a shard on a worker. Stoker's errors are returned, because Ray would wrap raised ones."""
    plan, maker = shared
    if _kept.get(plan.fingerprint) is None:
        _kept.clear()
        _kept[plan.fingerprint] = plan
    try:
        maker(_kept[plan.fingerprint], number, None)
    except StokerError as error:
        return error
    return None


def _result(ray: Any, reference: Any) -> None:
    try:
        error = ray.get(reference)
    except ray.exceptions.RayTaskError as wrapped:
        raise wrapped.cause from wrapped
    except ray.exceptions.RayError as lost:
        raise EngineError(
            f"Ray could not make a shard: {lost}",
            hint="Give the cluster more memory or disk, then run the same command again: it resumes.",
        ) from lost
    if error is not None:
        raise error


@contextmanager
def cluster(num_cpus: int) -> Iterator[Any]:
    """Ray, with the connection that it has, or one to ``RAY_ADDRESS`` or to a new cluster of this machine."""
    with optional_import("engine='ray' needs Ray", "ray"):
        import ray
    if ray.is_initialized():
        yield ray
        return
    local: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": num_cpus}
    ray.init(**local, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()
