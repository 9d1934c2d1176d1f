"""What a loader will need next of a remote dataset is fetched while it works on what is here."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import ConfigError
from stoker.formats.options import parse_size
from stoker.formats.remote.cache import open_cached
from stoker.formats.remote.requests import Requests
from stoker.formats.remote.store import is_url
from stoker.pipeline.staged_walk import StagedWalk
from stoker.pipeline.threads import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from stoker.formats.remote.blocks import BlockFiles
    from stoker.formats.remote.cache import CachedDataset

__all__ = ["StagedPass", "Staging", "make_staging"]

_PATIENCE = 5.0  # seconds that ending a pass waits for its thread


class Staging:
    """A remote dataset with a cache, for one loader.

    Args:
        url: Of the dataset's folder, or its path on a network file system.
        cache: Folder on a local disk. Ranks of one machine share it.
        size: Bytes that the cache may have about, such as ``200GB``; None for any number. The batches that
            are under way stay, even where they have more.
        connections: Requests at the same time.
        ahead: Bytes that may be here, or on their way, before they are needed.

    Raises: As :func:`stoker.formats.remote.cache.open_cached`.

    Attributes:
        dataset: The dataset, for engines; its data files have holes where nothing has been fetched.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        cache: str | os.PathLike[str],
        size: str | int | None = None,
        *,
        connections: int = 64,
        ahead: int = 1 << 30,
    ) -> None:
        self._stop = threading.Event()
        self._ahead = ahead
        self._limit = None if size is None else parse_size("cache_size", size)
        self.dataset: CachedDataset = open_cached(url, cache, evicts=self._limit is not None, stop=self._stop)
        self._requests = Requests(self.dataset.blocks, self.dataset.read_remote, connections)
        # A loader that is dropped without being closed leaves no threads and no descriptors.
        self._release = weakref.finalize(
            self, _release, os.getpid(), self._stop, self._requests, self.dataset.blocks
        )
        self._passes: weakref.WeakSet[StagedPass] = weakref.WeakSet()
        self._last_use = np.zeros(int(self.dataset.blocks.first[-1]), np.int64)

    def begin(self, batches: Iterable[npt.NDArray[np.int64]]) -> StagedPass:
        """Begin to fetch the batches of a pass.

        Args:
            batches: Rows of the index, (N,) int64, of each batch; used by a thread.
        """
        walk = StagedWalk(
            self.dataset, self._requests, self._last_use, batches, limit=self._limit, ahead=self._ahead
        )
        begun = StagedPass(walk)
        self._passes.add(begun)
        return begun

    def close(self) -> None:
        """End all fetching; what is here stays."""
        for begun in list(self._passes):
            begun.close()
        self._release()


def _release(process: int, stop: threading.Event, requests: Requests, blocks: BlockFiles) -> None:
    if os.getpid() != process:
        return  # a fork copies no threads, and locks as they were
    stop.set()
    requests.close()
    blocks.close()


def make_staging(
    dataset: object, cache: str | os.PathLike[str] | None, size: str | int | None
) -> Staging | None:
    """What a loader's arguments ask for; None where nothing is to be fetched.

    Raises:
        ConfigError: A URL without a cache, a size without one, or a cache of what is here.
    """
    if cache is None:
        if size is not None:
            raise ConfigError("cache_size needs cache, the folder that is meant")
        if is_url(dataset):
            raise ConfigError(
                "a loader reads local files",
                path=dataset,
                hint="name a local folder with cache=, or bring the whole dataset here: stoker stage",
            )
        return None
    if not isinstance(dataset, (str, os.PathLike)):
        raise ConfigError("cache is for a dataset named by its URL or path", hint="leave cache out")
    return Staging(dataset, cache, size)


class StagedPass:
    """The batches of one pass, in order: each is waited for, read, and released. Dropping it ends it."""

    def __init__(self, walk: StagedWalk) -> None:
        self._walk = walk
        worker = Worker(walk.run, walk.end, "stage")
        self.close = weakref.finalize(self, worker.end, _PATIENCE)
        worker.start()

    def wait(self) -> None:
        """Wait until the next batch can be read.

        Raises:
            StorageError: It cannot be fetched; names URL and shard.
            LoaderClosedError: The loader is being stopped.
        """
        self._walk.wait()

    def release(self) -> None:
        """Say that the oldest batch that was waited for has been read."""
        self._walk.release()
