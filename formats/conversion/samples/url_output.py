"""Shards that a writer makes in a temporary folder, and that go to a URL one by one."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from stoker.errors import StorageError
from stoker.urls import is_url

from ...dataset.manifest import Manifest
from ...files import remove
from ...remote.store import Store
from ..options import ConvertOptions
from ..plan import DatasetPlan
from ..shards.shard_file import ShardFile, ShardResult, shard_files
from ..targets.folder_state import STATE_NAME, FolderState
from ..targets.published import PublishedDatasets, count_published
from ..targets.url_target import UrlTarget, upload_files
from .output import ShardedOutput
from .sample_encoder import SampleEncoder


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
