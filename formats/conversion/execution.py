"""Executing a plan: its missing shards are made, then its datasets are published."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from stoker.errors import ConfigError
from stoker.urls import is_url

from ..files import check_target, folder_lock, is_inside, os_errors
from ..threads import available_cores, check_threads
from .already_converted import find_converted
from .listed_samples import check_loss
from .options import Engine, Progress
from .plan import ConversionPlan, DatasetPlan
from .publishing import PublishedDatasets, count_published
from .runners import LocalRunner, ProgressCounter, RayRunner
from .unfinished import Unfinished

_LEAST_THREADS_FOR_URLS = 32  # most of them wait for the network


@dataclass(frozen=True)
class Summary:
    """The result of a conversion."""

    written: int  # Samples in the shards
    skipped: Mapping[str, int]  # Number of files or lines that were left out, by reason
    bytes: int  # Bytes of all data files
    seconds: float  # Duration of this run, without listing the source
    images_per_second: float  # Samples that this run converted a second; of text, too
    shards: int  # Number of shards
    # Folder of each dataset, or its URL, by split; the key is empty where there are no splits
    datasets: Mapping[str, Path | str]
    already: bool = False  # Whether an earlier call had made the same datasets, so that this one did nothing

    @classmethod
    def of(cls, published: PublishedDatasets, seconds: float, converted: int) -> Summary:
        """Return the summary of a run that took so long, and converted so many samples."""
        return cls(
            published.written,
            published.skipped,
            published.bytes,
            0.0 if published.already else seconds,
            converted / seconds,
            published.shards,
            published.folders,
            published.already,
        )


def check_num_threads(num_threads: int | None, *, remote: bool = False) -> int:
    """Number of threads: as given, or the cores of this process, more for remote sources."""
    default = max(available_cores(), _LEAST_THREADS_FOR_URLS) if remote else None
    return check_threads(num_threads, default)


@contextmanager
def open_target(
    target: str | os.PathLike[str], plan: DatasetPlan, *, resumes: bool = True
) -> Iterator[Unfinished]:
    """Yield the unfinished conversion of a plan at a URL, or in a folder, which is locked meanwhile."""
    # ``resumes`` says whether the same call continues after an error.
    if is_url(target):
        from .unfinished_at_url import UnfinishedAtUrl

        with tempfile.TemporaryDirectory(prefix="stoker-convert-") as scratch:
            yield UnfinishedAtUrl(str(target), Path(scratch), plan)
        return
    folder = Path(target)
    check_target(folder)
    with os_errors(folder, resumes=resumes):
        folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(folder):
            state = Unfinished(folder, plan)
            state.empty_trash()
            yield state


def execute(
    plan: ConversionPlan,
    target: str | os.PathLike[str],
    num_threads: int,
    *,
    overwrite: bool,
    report: Progress,
    engine: Engine = "local",
    allow_loss: Fraction | None = None,
) -> Summary:
    """Make the shards of a plan that are missing at its target, and publish its datasets."""
    # ``allow_loss`` is the share of the source that may be left out.
    started = time.monotonic()
    runner = RayRunner(num_threads) if engine == "ray" else LocalRunner(num_threads)
    with open_target(target, plan) as state:
        # An earlier call may have made the same datasets.
        if not overwrite and state.fingerprint() is None and (done := find_converted(plan, state.found)):
            return Summary.of(done, time.monotonic() - started, 0)
        # Only the shards that are missing are made.
        state.enter(overwrite=overwrite)
        missing = [number for number, result in enumerate(state.results()) if result is None]
        counter = ProgressCounter(plan, missing, report)
        with state.removed_with_source():
            runner(plan, state.maker(), missing, counter)
        counter.show("publishing")
        results = [result for result in state.results() if result is not None]
        check_loss(
            plan.listing, allow_loss, results
        )  # the shards stay: with the loss allowed, they are published
        # The shards get their names; then come index and manifest.
        published = count_published(plan, results, state.publish(results))
    return Summary.of(published, time.monotonic() - started, counter.converted)


def check_outside_source(
    src: str | os.PathLike[str], dst: str | os.PathLike[str], splits: Iterable[str]
) -> None:
    """Raise ConfigError if the target lies in the source, whose images would mix with shards."""
    if not os.path.isdir(src):  # noqa: PTH112 - a path or a string
        return
    source = os.path.realpath(src)
    for split in () if is_url(dst) else splits:
        target = os.path.realpath(Path(dst) / split)
        if target == source or is_inside(target, source):
            raise ConfigError(
                "the target lies in the source, whose images would mix with shards",
                path=Path(dst) / split,
                hint="Name a folder beside the source.",
            )
