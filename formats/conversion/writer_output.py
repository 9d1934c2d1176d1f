"""Shards that grow by one record at a time, and the dataset that they become."""

from __future__ import annotations

import os
import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from stoker.errors import StorageError
from stoker.urls import is_url

from ..dataset.annotations import AnnotationInfo
from ..dataset.joining import Part, add_part
from ..dataset.manifest import Manifest
from ..dataset.versions import check_unchanged, remove_remains
from ..files import os_errors
from ..sources.listing import Listing, Skip, skipped_lines
from .execution import open_target
from .options import ConvertOptions
from .plan import DatasetPlan, EncodedRecord, PlannedShard
from .publishing import SplitOutput, Summary
from .sample_encoder import SampleEncoder
from .shard import ShardFile, ShardResult, new_attempt, shard_files
from .unfinished import WRITER_FINGERPRINT

_NOTHING = np.zeros(0, np.int64)


class ShardedOutput:
    """An unfinished dataset, whose folder is locked until it is published or abandoned; or one at a URL."""

    def __init__(
        self,
        target: str | os.PathLike[str],
        encoder: SampleEncoder,
        options: ConvertOptions,
        existing: Manifest | None,
        *,
        overwrite: bool,
    ) -> None:
        self._encoder = encoder
        self._existing = existing
        self._options = options
        self._fingerprint = f"{WRITER_FINGERPRINT}{secrets.token_hex(16)}"
        self._skipped: list[Skip] = []
        self._results: list[Future[ShardResult]] = []
        self._open: tuple[ShardFile, ExitStack] | None = None
        self._samples = 0
        self._released = False
        self._root = Path() if is_url(target) else Path(target)
        with ExitStack() as entering:
            plan = self._plan((), AnnotationInfo())
            self._state = entering.enter_context(open_target(target, plan, resumes=False))
            if existing is not None:
                check_unchanged(self._root, existing)
                remove_remains(self._root, existing)
            self._state.enter(overwrite=overwrite, appends=existing is not None)
            # One thread syncs a whole shard to the disk while the next one is written.
            self._finisher = ThreadPoolExecutor(1, thread_name_prefix="stoker-finish")
            entering.callback(self._finisher.shutdown)
            self._resources = entering.pop_all()

    def add(self, outcome: EncodedRecord | Skip) -> None:
        """Append a record to the shard, or to a new one if the shard is full; note a skip."""
        if isinstance(outcome, Skip):
            self._skipped.append(outcome)
            return
        with os_errors(self._state.target, resumes=False):
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
            result = shard.finish(self._state.folder, number)
            self._state.keep(number)
            return result

    def publish(self, classes: tuple[str, ...], info: AnnotationInfo) -> Summary:
        """Make a dataset of all shards, or the next version of the existing one, and release the folder."""
        try:
            with os_errors(self._state.target, resumes=False):
                self._finish_shard()
                results = [result.result() for result in self._results]
                plan = self._plan(classes, info)
                if self._existing is None:
                    self._state.plan = plan
                    return Summary.of(plan, results, self._state.publish(results))
                if results:  # without a shard the last version stays
                    self._append(plan, self._existing, results)
                return Summary.of(plan, results, {"": self._root})
        finally:
            self.abandon()

    def _append(self, plan: DatasetPlan, existing: Manifest, results: list[ShardResult]) -> None:
        state = self._state.folder
        output = SplitOutput(plan, state, "", results)
        index = output.merge_index()
        add_part(
            Part.of(self._root, existing),
            Part(state, output.manifest(index), index),
            [shard_files(state, number, existing.container) for number in output.shards],
            classes=plan.listing.classes,
            skipped=skipped_lines(output.skipped),
            change="append by a writer",
            staging=state,
        )

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
            with suppress(StorageError):  # the next writer removes the files at a URL
                self._state.discard()

    def _plan(self, classes: tuple[str, ...], info: AnnotationInfo) -> DatasetPlan:
        """The plan of the shards so far, whose listing has no files."""
        nothing = pa.array([], pa.large_string())
        listing = Listing(
            self._root, nothing, _NOTHING, _NOTHING, None, classes, skipped=tuple(self._skipped), info=info
        )
        shards = tuple(PlannedShard("", number, _NOTHING) for number in range(len(self._results)))
        return DatasetPlan(self._options, listing, self._encoder, shards, self._fingerprint)
