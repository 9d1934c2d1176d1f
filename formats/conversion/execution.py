"""Running a planned conversion: the shards that are missing are made, then all is published."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from stoker.errors import ConfigError, SampleError, SourceError

from ..concurrency.cores import available_cores, check_threads
from ..concurrency.task_group import TaskGroup
from ..files.publishing import check_target, folder_lock, os_errors
from ..remote.store import is_url
from .finished import find_finished
from .shards import ShardResult, write_shard
from .state import ConversionState, empty_trash

if TYPE_CHECKING:
    import os

    from .plan import ConversionPlan

__all__ = [
    "Engine",
    "Maker",
    "Progress",
    "Run",
    "Runner",
    "Summary",
    "Tracker",
    "check_num_threads",
    "execute",
    "no_progress",
]

Engine = Literal["local", "ray"]

Progress = Callable[[int, int, int, str], None]
"""Called from the converting thread with samples done, samples in all, source bytes done, and the stage:
listing, converting, publishing."""

_LEAST_THREADS_FOR_URLS = 32  # most of them wait for the network


@dataclass(frozen=True)
class Summary:
    """What a conversion did.

    Attributes:
        written: Samples in the shards.
        skipped: How many files or lines were left out, by reason; which ones is in ``skipped.jsonl``.
        bytes: Of all data files.
        seconds: This run took, without listing the source.
        images_per_second: Samples, whatever they are, that this run converted.
        shards: Number of shards.
        datasets: Folder of each dataset by split, or its URL; under an empty name where there are no splits.
        already: Whether the same call had made them before, and this run did nothing.
    """

    written: int
    skipped: Mapping[str, int]
    bytes: int
    seconds: float
    images_per_second: float
    shards: int
    datasets: Mapping[str, Path | str]
    already: bool = False


class Maker(Protocol):
    """Makes shards and keeps them where the conversion gathers them."""

    def make(self, plan: ConversionPlan, number: int, **how: Any) -> ShardResult:
        """Make shard ``number``; ``how`` is for :func:`stoker.formats.conversion.shards.write_shard`."""


@dataclass(frozen=True)
class FolderMaker:
    """Keeps shards in the folder of an unfinished conversion; see :class:`Maker`."""

    state: Path

    def make(self, plan: ConversionPlan, number: int, **how: Any) -> ShardResult:
        """See :class:`Maker`."""
        return write_shard(plan, number, self.state, **how)


class Tracker:
    """How far a conversion is: told from any thread, reports from the one that converts."""

    def __init__(self, plan: ConversionPlan, missing: Sequence[int], report: Progress) -> None:
        left = set(missing)
        finished = [shard.rows for number, shard in enumerate(plan.shards) if number not in left]
        self._lock = threading.Lock()
        self._total = len(plan.listing)
        self._done = sum(len(rows) for rows in finished)
        self._bytes = sum(int(plan.listing.bytes[rows].sum()) for rows in finished)
        self._report = report
        self.converted = 0

    def add(self, samples: int, size: int) -> None:
        """So many samples, of so many bytes in the source, have been dealt with."""
        with self._lock:
            self._done += samples
            self._bytes += size
            self.converted += samples

    def show(self, stage: str) -> None:
        """Report."""
        self._report(self._done, self._total, self._bytes, stage)


Runner = Callable[["ConversionPlan", Maker, Sequence[int], Tracker], None]
"""Makes the shards of a plan that are missing; raises what the first that fails raises."""


@dataclass
class Run:
    """A plan, what makes its shards, and who is told.

    Attributes:
        plan: The plan.
        runner: Makes shards.
        report: Is told of progress.
        converted: Samples that were converted.
    """

    plan: ConversionPlan
    runner: Runner
    report: Progress
    converted: int = 0

    def make(self, maker: Maker, missing: Sequence[int]) -> None:
        """Make these shards."""
        tracker = Tracker(self.plan, missing, self.report)
        try:
            self.runner(self.plan, maker, missing, tracker)
        finally:
            self.converted = tracker.converted
        tracker.show("publishing")


def no_progress(done: int, total: int, size: int, stage: str) -> None:
    """Nobody wants to know."""


def check_num_threads(num_threads: int | None, *, remote: bool = False) -> int:
    """Number of threads: as given, or the cores that this process may use; more of a remote source.

    Raises:
        ConfigError: It is no number of threads.
    """
    default = max(available_cores(), _LEAST_THREADS_FOR_URLS) if remote else None
    return check_threads(num_threads, default)


def execute(
    plan: ConversionPlan,
    dst: str | os.PathLike[str],
    num_threads: int,
    *,
    overwrite: bool,
    report: Progress,
    engine: Engine = "local",
) -> Summary:
    """Run a plan, or what is left of it, and publish its datasets.

    Raises: As :func:`stoker.convert`.
    """
    started = time.monotonic()
    run = Run(plan, _runner(engine, num_threads), report)
    if is_url(dst):
        from .remote_target import convert_to_url

        return _summary(run, started, *convert_to_url(run, str(dst), overwrite=overwrite))
    folder = Path(dst)
    check_target(folder)
    with os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(folder):
            empty_trash(folder)
            if not overwrite and (found := _found(folder, plan)) is not None:
                return found
            return _summary(run, started, *_convert_to_folder(run, folder, overwrite=overwrite))


def _found(folder: Path, plan: ConversionPlan) -> Summary | None:
    """The summary of a conversion that has been made already."""
    datasets = ConversionState(folder, plan).datasets()
    manifests = find_finished(folder, plan, datasets)
    if manifests is None:
        return None
    shards = [shard for manifest in manifests for shard in manifest.shards]
    skipped: Counter[str] = Counter()
    for manifest in manifests:
        skipped.update(manifest.skipped)
    return Summary(
        written=sum(manifest.index.rows for manifest in manifests),
        skipped=dict(sorted(skipped.items())),
        bytes=sum(shard.bytes for shard in shards),
        seconds=0.0,
        images_per_second=0.0,
        shards=len(shards),
        datasets=datasets,
        already=True,
    )


def _summary(
    run: Run, started: float, results: list[ShardResult], datasets: Mapping[str, Path | str]
) -> Summary:
    seconds = time.monotonic() - started
    skipped = Counter(skip.reason for skip in run.plan.listing.skipped)
    skipped.update(skip.reason for result in results for skip in result.skipped)
    return Summary(
        written=sum(result.records for result in results),
        skipped=dict(sorted(skipped.items())),
        bytes=sum(result.bytes for result in results),
        seconds=seconds,
        images_per_second=run.converted / seconds,
        shards=sum(1 for result in results if result.records),
        datasets=datasets,
    )


def _convert_to_folder(
    run: Run, folder: Path, *, overwrite: bool
) -> tuple[list[ShardResult], Mapping[str, Path]]:
    state = ConversionState.enter(folder, run.plan, overwrite=overwrite)
    numbers = range(len(run.plan.shards))
    try:
        run.make(FolderMaker(state.folder.absolute()), [n for n in numbers if state.finished(n) is None])
    except (SampleError, SourceError):
        # Strict, and a sample is bad. Once it is repaired the source is another: nothing to resume.
        state.discard()
        raise
    results = [state.result(number) for number in numbers]
    return results, state.publish(results)


def _runner(engine: Engine, num_threads: int) -> Runner:
    if engine not in get_args(Engine):
        raise ConfigError(f"engine must be one of {', '.join(get_args(Engine))}, not {engine!r}")
    if engine == "ray":
        from .ray import RayRunner

        return RayRunner(num_threads)
    return _LocalRunner(num_threads)


@dataclass(frozen=True)
class _LocalRunner:
    """Makes a few shards at a time, all of them on one pool of threads.

    A shard that is being synced, which waits for the disk, then leaves the threads to the next one.
    """

    num_threads: int

    def __call__(self, plan: ConversionPlan, maker: Maker, missing: Sequence[int], tracker: Tracker) -> None:
        stop = threading.Event()
        with (
            ThreadPoolExecutor(self.num_threads, thread_name_prefix="stoker-encode") as encoders,
            ThreadPoolExecutor(
                _shards_at_once(self.num_threads), thread_name_prefix="stoker-shard"
            ) as writers,
        ):
            how: dict[str, Any] = {
                "pool": encoders,
                "ahead": self.num_threads + 2,
                "tally": tracker.add,
                "stop": stop,
            }
            shards = TaskGroup(writers)
            try:
                for number in missing:
                    shards.start(partial(maker.make, plan, number, **how))
                shards.wait(partial(tracker.show, "converting"))
            finally:
                writers.shutdown(wait=False, cancel_futures=True)  # first: who is stopped starts no other
                stop.set()


def _shards_at_once(num_threads: int) -> int:
    return 2 + num_threads // 8
