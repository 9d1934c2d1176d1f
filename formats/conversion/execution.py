"""Executing a plan: missing shards are made, on threads or on a Ray cluster, and its datasets published."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from stoker.errors import EngineError, StokerError, optional_import
from stoker.urls import is_url

from ..files import check_target, folder_lock, is_one_of_ranks, os_errors, temporary_folder
from ..threads import TaskGroup
from .listed_samples import check_loss, check_no_class_lost
from .options import Engine, Progress
from .plan import ConversionPlan, DatasetPlan
from .publishing import Summary, find_converted
from .shard import ShardContext, ShardResult
from .unfinished import Unfinished

_RETRIES = 5  # of a shard whose worker or machine dies
_TICK = 0.2  # seconds between two reports of progress on Ray; an interrupt waits as long

ShardMaker = Callable[[ConversionPlan, int, ShardContext | None], ShardResult]
"""Makes a shard of a plan, given by its number, and keeps it in the unfinished conversion at its target."""


@contextmanager
def open_target(
    target: str | os.PathLike[str], plan: DatasetPlan, *, resumes: bool = True
) -> Iterator[Unfinished]:
    """Yield the unfinished conversion of a plan at a URL, or in a folder, which is locked meanwhile."""
    # ``resumes`` says whether the same call continues after an error.
    if is_url(target):
        from .unfinished_at_url import UnfinishedAtUrl

        with temporary_folder("stoker-convert-") as scratch:
            yield UnfinishedAtUrl(str(target), Path(scratch), plan)
        return
    folder = Path(target)
    check_target(folder)
    with os_errors(folder, resumes=resumes):
        folder.mkdir(parents=True, exist_ok=True)
        # Ranks of a training that all begin with this call wait for the first, and find its datasets.
        with folder_lock(folder, wait=is_one_of_ranks()):
            state = Unfinished(folder, plan)
            state.empty_trash()
            yield state


def execute(
    plan: ConversionPlan,
    target: str | os.PathLike[str],
    num_threads: int,
    *,
    overwrite: bool,
    report: Progress | None = None,
    engine: Engine = "local",
    allow_loss: Fraction | None = None,
    allow_missing_classes: bool = True,
) -> Summary:
    """Make the shards of a plan that are missing at its target, and publish its datasets."""
    # ``allow_loss`` is the share of the source that may be left out.
    started = time.monotonic()
    make = make_on_ray if engine == "ray" else make_on_threads
    with open_target(target, plan) as state:
        # An earlier call may have made the same datasets.
        if not overwrite and state.fingerprint() is None and (done := find_converted(plan, state.found)):
            return done
        # Only the shards that are missing are made.
        state.enter(overwrite=overwrite)
        missing = [number for number, result in enumerate(state.results()) if result is None]
        counter = ProgressCounter(plan, missing, report)
        with state.discarded_on_bad_source():
            make(plan, state.maker(), missing, counter, num_threads)
        counter.show("publishing")
        results = [result for result in state.results() if result is not None]
        if not allow_missing_classes:
            with state.discarded_on_bad_source():
                check_no_class_lost(plan, results)
        # If too much is lost, the shards stay: with the loss allowed, they are published.
        check_loss(plan.listing, allow_loss, results, plan.encoder.sample_type)
        # The shards get their names; then come index and manifest.
        published = Summary.of(plan, results, state.publish(results))
    return published.timed(started, counter.converted)


class ProgressCounter:
    """Counts the samples of a conversion that are done.

    Any thread may add to it; the converting thread alone reports.
    """

    def __init__(self, plan: ConversionPlan, missing: Sequence[int], report: Progress | None = None) -> None:
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
        if self._report is not None:
            self._report(self._done, self._total, self._bytes, stage)


def make_on_threads(
    plan: ConversionPlan, maker: ShardMaker, missing: Sequence[int], counter: ProgressCounter, threads: int
) -> None:
    """Make a few shards at a time, whose samples are all encoded by one pool of threads."""
    # While one shard waits for the disk to sync, the pool encodes samples of the next one.
    stop = threading.Event()
    with (
        ThreadPoolExecutor(threads, thread_name_prefix="stoker-encode") as encoders,
        ThreadPoolExecutor(2 + threads // 8, thread_name_prefix="stoker-shard") as writers,
    ):
        context = ShardContext(encoders, threads + 2, counter.add, stop)
        shards = TaskGroup(writers)
        try:
            for number in missing:
                shards.start(partial(maker, plan, number, context))
            shards.wait(partial(counter.show, "converting"))
        finally:
            # The pool shuts down first: a shard that is stopped must not make room for another one.
            writers.shutdown(wait=False, cancel_futures=True)
            stop.set()


def make_on_ray(
    plan: ConversionPlan, maker: ShardMaker, missing: Sequence[int], counter: ProgressCounter, num_cpus: int
) -> None:
    """Make each shard in a task of Ray; ``num_cpus`` is for a cluster that is started on this machine."""
    with ray_cluster(num_cpus) as ray:
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
    if plan.fingerprint not in _kept:
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
def ray_cluster(num_cpus: int) -> Iterator[Any]:
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
