"""Shards that grow by one record at a time, and the dataset that they become."""

from __future__ import annotations

import os
import secrets
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from stoker.errors import StorageError
from stoker.urls import is_url

from ..dataset.annotations import AnnotationInfo
from ..dataset.joining import Part, add_part
from ..dataset.manifest import STATE_NAME, Manifest
from ..dataset.versions import check_unchanged, remove_remains
from ..files import check_target, folder_lock, os_errors, remove
from ..remote.store import Store
from ..sources.listing import Listing, Skip, skipped_lines
from .folder_state import WRITER_FINGERPRINT, FolderState, empty_trash
from .options import ConvertOptions
from .plan import DatasetPlan, EncodedRecord, PlannedShard
from .publishing import PublishedDatasets, SplitOutput, count_published
from .sample_encoder import SampleEncoder
from .shard import ShardFile, ShardResult, new_attempt, shard_files
from .url_target import UrlTarget, upload_files

_NOTHING = np.zeros(0, np.int64)


class ShardedOutput:
    """An unfinished dataset in a folder, whose lock it holds until it is published or abandoned."""

    def __init__(
        self,
        folder: Path,
        encoder: SampleEncoder,
        options: ConvertOptions,
        existing: Manifest | None = None,
        *,
        overwrite: bool,
    ) -> None:
        self.folder = folder
        self.target: Path | str = folder
        self._encoder = encoder
        self._existing = existing
        self._options = options
        self._fingerprint = f"{WRITER_FINGERPRINT}{secrets.token_hex(16)}"
        self._skipped: list[Skip] = []
        self._results: list[Future[ShardResult]] = []
        self._open: tuple[ShardFile, ExitStack] | None = None
        self._samples = 0
        self._released = False
        check_target(folder)
        with os_errors(folder, resumes=False), ExitStack() as entering:
            folder.mkdir(parents=True, exist_ok=True)
            entering.enter_context(folder_lock(folder))
            empty_trash(folder)
            if existing is not None:
                check_unchanged(folder, existing)
                remove_remains(folder, existing)
            plan = self._plan((), AnnotationInfo())
            self._state = FolderState.enter(folder, plan, overwrite=overwrite, appends=existing is not None)
            # One thread syncs a whole shard to the disk while the next one is written.
            finisher = ThreadPoolExecutor(1, thread_name_prefix="stoker-finish")
            entering.callback(finisher.shutdown)
            self._finisher = finisher
            self._resources = entering.pop_all()

    def add(self, outcome: EncodedRecord | Skip) -> None:
        """Append a record to the shard, or to a new one if the shard is full; note a skip."""
        if isinstance(outcome, Skip):
            self._skipped.append(outcome)
            return
        with os_errors(self.folder, resumes=False):
            if self._is_full(len(outcome.prefix) + len(outcome.payload) + len(outcome.suffix)):
                self._finish_shard()
            if self._open is None:
                self._open = self._new_shard()
            self._open[0].add(outcome, self._samples)
            self._samples += 1

    def _is_full(self, size: int) -> bool:
        if self._open is None:
            return False
        shard, options = self._open[0], self._options
        if options.shard_records:
            return len(shard) >= options.shard_records
        return shard.bytes + size > options.shard_bytes

    def _new_shard(self) -> tuple[ShardFile, ExitStack]:
        with ExitStack() as opening:
            attempt = opening.enter_context(new_attempt(self._state.folder))
            number = len(self._results)
            shard = opening.enter_context(ShardFile(attempt, number, self._options.container, self._encoder))
            return shard, opening.pop_all()

    def _finish_shard(self) -> None:
        """Hand the open shard to the finishing thread, after the one before it is finished."""
        if self._open is None:
            return
        if self._results:
            self._results[-1].result()  # if this fails, the open shard is closed with all others
        (shard, resources), self._open = self._open, None
        self._results.append(self._finisher.submit(self._finish, shard, resources, len(self._results)))

    def _finish(self, shard: ShardFile, resources: ExitStack, number: int) -> ShardResult:
        with resources:
            return shard.finish(self._state.folder, number)

    def publish(self, classes: tuple[str, ...], info: AnnotationInfo) -> PublishedDatasets:
        """Make a dataset of all shards and release the folder."""
        try:
            with os_errors(self.folder, resumes=False):
                self._finish_shard()
                results = [result.result() for result in self._results]
                plan = self._plan(classes, info)
                if self._existing is not None:
                    return self._append(plan, self._existing, results)
                return self._publish(plan, FolderState(self.folder, plan), results)
        finally:
            self.abandon()

    def _publish(
        self, plan: DatasetPlan, state: FolderState, results: list[ShardResult]
    ) -> PublishedDatasets:
        """Make a new dataset of finished shards."""
        return count_published(plan, results, state.publish(results))

    def _append(self, plan: DatasetPlan, existing: Manifest, results: list[ShardResult]) -> PublishedDatasets:
        """Make the next version of a dataset with finished shards; without one the last version stays."""
        if results:
            state = self._state.folder
            output = SplitOutput(plan, state, "", results)
            index = output.merge_index()
            add_part(
                Part.of(self.folder, existing),
                Part(state, output.manifest(index), index),
                [shard_files(state, shard.plan_number, existing.container) for shard in output.shards],
                classes=plan.listing.classes,
                skipped=skipped_lines(output.skipped),
                change="append by a writer",
                staging=state,
            )
        return count_published(plan, results, {"": self.folder})

    def abandon(self) -> None:
        """Remove the unpublished files and release the folder. Further calls do nothing."""
        if self._released:  # another writer may hold the folder by now
            return
        self._released = True
        with self._resources:
            if self._open is not None:
                self._open[1].close()
                self._open = None
            self._finisher.shutdown()
            self._state.discard()

    def _plan(self, classes: tuple[str, ...], info: AnnotationInfo) -> DatasetPlan:
        """The plan of the shards so far, whose listing has no files."""
        nothing = pa.array([], pa.large_string())
        listing = Listing(
            self.folder, nothing, _NOTHING, _NOTHING, None, classes, skipped=tuple(self._skipped), info=info
        )
        shards = tuple(PlannedShard("", number, _NOTHING) for number in range(len(self._results)))
        return DatasetPlan(self._options, listing, self._encoder, shards, self._fingerprint)


class UrlOutput(ShardedOutput):
    """An unfinished dataset at a URL, as a conversion into one makes it.

    A finished shard is uploaded to ``.stoker-convert`` while the next one is written, and its local copy is
    removed. The shards get their names at the end, and the manifest comes last.
    """

    def __init__(self, url: str, encoder: SampleEncoder, options: ConvertOptions, *, overwrite: bool) -> None:
        self._store = Store(url)
        self._is_published = False
        self._temporary = tempfile.TemporaryDirectory(prefix="stoker-writer-")
        super().__init__(Path(self._temporary.name), encoder, options, overwrite=False)
        self.target = url
        conversion = UrlTarget(self._store, self._state.plan)
        try:
            conversion.enter(conversion.read_fingerprint(), overwrite=overwrite)
        except BaseException:
            self._is_published = True  # the files there belong to another conversion
            self.abandon()
            raise

    def _finish(self, shard: ShardFile, resources: ExitStack, number: int) -> ShardResult:
        result = super()._finish(shard, resources, number)
        files = shard_files(self._state.folder, number, self._options.container)
        data = [file for name, file in files.items() if name not in ("index", "result")]
        upload_files(self._store, self._state.folder, data)
        for file in data:
            remove(file)
        return result

    def _publish(
        self, plan: DatasetPlan, state: FolderState, results: list[ShardResult]
    ) -> PublishedDatasets:
        state.publish(results)
        folders = UrlTarget(self._store, plan).publish(self.folder, results)
        self._is_published = True
        return count_published(plan, results, folders)

    def abandon(self) -> None:
        """Remove the unpublished files, here and at the URL. Further calls do nothing."""
        if self._released:
            return
        super().abandon()
        self._temporary.cleanup()
        if not self._is_published:
            with suppress(StorageError):  # the next writer removes them
                self._store.remove(STATE_NAME)


def open_output(
    target: str | os.PathLike[str],
    encoder: SampleEncoder,
    options: ConvertOptions,
    existing: Manifest | None,
    *,
    overwrite: bool,
) -> ShardedOutput:
    """Return the output of a writer into a folder, or to a URL; see the classes for arguments and errors."""
    if is_url(target):
        return UrlOutput(str(target), encoder, options, overwrite=overwrite)
    return ShardedOutput(Path(target), encoder, options, existing, overwrite=overwrite)
