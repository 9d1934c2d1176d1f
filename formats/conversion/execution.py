"""Executing a plan: its missing shards are made, then its datasets are published."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from stoker.errors import ConfigError, SampleError, SourceError
from stoker.urls import is_url

from ..dataset.manifest import MANIFEST_NAME, Manifest
from ..files import check_target, folder_lock, is_inside, os_errors
from ..threads import available_cores, check_threads
from .already_converted import FoundDataset, find_converted
from .folder_state import FolderState, empty_trash
from .options import Engine, Progress
from .plan import ConversionPlan
from .publishing import PublishedDatasets, count_published
from .runners import ConversionRun, LocalRunner, RayRunner
from .shard import write_shard
from .url_target import convert_to_url


def convert_to_folder(run: ConversionRun, folder: Path, *, overwrite: bool) -> PublishedDatasets:
    """Make the shards of a plan that are missing in a folder, and publish its datasets there.

    Raises: As :func:`stoker.convert`.
    """
    check_target(folder)
    with os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(folder):
            empty_trash(folder)
            if not overwrite and (converted := _already_converted(folder, run.plan)) is not None:
                return converted
            return _convert(run, folder, overwrite=overwrite)


def _convert(run: ConversionRun, folder: Path, *, overwrite: bool) -> PublishedDatasets:
    state = FolderState.enter(folder, run.plan, overwrite=overwrite)
    numbers = range(len(run.plan.shards))
    missing = [number for number in numbers if state.finished(number) is None]
    try:
        run.make(partial(write_shard, state.folder.absolute()), missing)
    except (SampleError, SourceError):
        # A strict conversion has met a bad sample. Its repair makes another source: nothing can be resumed.
        state.discard()
        raise
    results = [state.result(number) for number in numbers]
    run.check_loss(results)  # the shards stay: the same command, with the loss allowed, publishes them
    return count_published(run.plan, results, state.publish(results))


def _already_converted(folder: Path, plan: ConversionPlan) -> PublishedDatasets | None:
    """The datasets in the folder if an earlier conversion has made all of this plan."""
    state = FolderState(folder, plan)
    if state.folder.exists():
        return None
    datasets = state.datasets()
    return find_converted(plan, lambda split: _found(datasets[split]))


def _found(folder: Path) -> FoundDataset:
    return FoundDataset(
        location=folder,
        manifest=Manifest.load(folder),
        modified=(folder / MANIFEST_NAME).stat().st_mtime_ns,
        size=lambda name: (folder / name).stat().st_size,
        local=folder.joinpath,
    )


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


def execute(
    plan: ConversionPlan,
    dst: str | os.PathLike[str],
    num_threads: int,
    *,
    overwrite: bool,
    report: Progress,
    engine: Engine = "local",
    allow_loss: Fraction | None = None,
) -> Summary:
    """Make the shards of a plan that are missing at its target, and publish its datasets.

    ``allow_loss`` is the share of the source that may be left out, see :func:`.targets.loss.check_loss`.

    Raises: As :func:`stoker.convert`.
    """
    started = time.monotonic()
    runner = RayRunner(num_threads) if engine == "ray" else LocalRunner(num_threads)
    run = ConversionRun(plan, runner, report, allow_loss)
    if is_url(dst):
        published = convert_to_url(run, str(dst), overwrite=overwrite)
    else:
        published = convert_to_folder(run, Path(dst), overwrite=overwrite)
    return Summary.of(published, time.monotonic() - started, run.converted)


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
                hint="name a folder beside the source",
            )
