"""Converting a plan into a local folder: make the missing shards there, then publish the datasets."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from stoker.errors import SampleError, SourceError

from ...dataset.manifest import MANIFEST_NAME, Manifest
from ...files import check_target, folder_lock, os_errors
from ..plan import ConversionPlan
from ..run import ConversionRun
from ..shards.planned_shard import write_shard
from .already_converted import FoundDataset, find_converted
from .folder_state import FolderState, empty_trash
from .published import PublishedDatasets, count_published


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
