"""What a loader will need next of remote datasets is fetched while it works on what is here."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import ConfigError
from stoker.formats.caching.cached_dataset import CachedDataset
from stoker.formats.open import open as open_dataset
from stoker.formats.remote.store import is_url

from ..execution.threads import StopEvent, Worker
from .block_requests import Requests
from .cache_read_ahead import CacheReadAhead, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    import numpy.typing as npt

    from stoker.formats.dataset.dataset import Dataset

    from ..order.sample_source import SampleSource

    Int64 = npt.NDArray[np.int64]
    D = TypeVar("D", bound="SampleSource | str | os.PathLike[str]")

__all__ = ["CachePrefetcher", "CachedEpoch", "make_cache_prefetcher", "resolve"]

_PATIENCE = 5.0  # seconds that ending a pass waits for its threads


def resolve(dataset: D, cache: str | os.PathLike[str] | None, size: str | int | None) -> D | Dataset:
    """The dataset that a loader's arguments name, or its path where nothing is to be fetched.

    Raises:
        ConfigError: A URL without a cache, a size without one, or a cache of what is open already.
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
        return dataset
    if not isinstance(dataset, (str, os.PathLike)):
        raise ConfigError(
            "cache is for a dataset named by its URL or path",
            hint="name it where the dataset is opened: stoker.open(url, cache=..., cache_size=...)",
        )
    return open_dataset(dataset, cache=cache, cache_size=size)


def make_cache_prefetcher(dataset: SampleSource) -> CachePrefetcher | None:
    """What fetches a dataset ahead of a loader; None where all of it is here."""
    is_remote = any(isinstance(one, CachedDataset) for one in dataset.datasets)
    return CachePrefetcher(dataset) if is_remote else None


class CachePrefetcher:
    """Remote datasets with caches, for one loader.

    Args:
        dataset: A dataset that was opened with a cache, a selection from one, or a mixture with such.
        connections: Requests at the same time.
        ahead: Bytes that may be here, or on their way, before they are needed.
    """

    def __init__(self, dataset: SampleSource, *, connections: int = 64, ahead: int = 1 << 30) -> None:
        # Rows of a mixture are counted through its datasets.
        self._ends = np.cumsum([len(one.index) for one in dataset.datasets])
        cached = {
            number: one for number, one in enumerate(dataset.datasets) if isinstance(one, CachedDataset)
        }
        self._ahead = ahead // len(cached)
        self._sources = {
            number: _source(one, max(1, connections // len(cached))) for number, one in cached.items()
        }
        self._process = os.getpid()
        # A loader that is dropped without being closed leaves no threads and no descriptors.
        self._dropped = weakref.finalize(self, _release, self._process, list(self._sources.values()))
        self._passes: weakref.WeakSet[CachedEpoch] = weakref.WeakSet()

    def begin(self, batches: Callable[[], Iterable[Int64]]) -> CachedEpoch:
        """Begin to fetch the batches of a pass.

        Args:
            batches: Makes the rows, (N,) int64, that each batch reads: of the index, or of the indices of a
                mixture one after the other. Called once for each dataset, and used by a thread.
        """
        begun = CachedEpoch(
            [
                CacheReadAhead(source, _rows_of(batches(), number, self._ends), ahead=self._ahead)
                for number, source in self._sources.items()
            ]
        )
        self._passes.add(begun)  # before its threads start: Ctrl-C may come in between
        begun.start()
        return begun

    def close(self) -> None:
        """End all fetching; what is here stays. Safe to call twice, and after an interrupt."""
        for begun in list(self._passes):
            begun.close()
        _release(self._process, list(self._sources.values()))
        self._dropped.detach()


def _source(dataset: CachedDataset, connections: int) -> Source:
    stop = StopEvent()
    files = dataset.open_files(stop)
    last_use = np.zeros(int(files.blocks.first[-1]), np.int64)
    return Source(dataset, files, Requests(files.blocks, files.fetch, connections, stop), last_use)


def _rows_of(batches: Iterable[Int64], number: int, ends: Int64) -> Iterator[Int64]:
    """Those rows of each batch that are of dataset ``number``, as it counts them."""
    start = int(ends[number - 1]) if number else 0
    for rows in batches:
        yield rows[(rows >= start) & (rows < ends[number])] - start


def _release(process: int, sources: Sequence[Source]) -> None:
    if os.getpid() != process:
        return  # a fork copies no threads, and locks as they were
    for source in sources:
        source.requests.close()
        source.files.blocks.close()


class CachedEpoch:
    """The batches of one pass, in order: each is waited for, read, and released. Dropping it ends it."""

    def __init__(self, walks: Sequence[CacheReadAhead]) -> None:
        self._walks = walks
        self._workers = [Worker(walk.run, walk.end, "stage") for walk in walks]
        self._process = os.getpid()
        self._dropped = weakref.finalize(self, _end, self._process, walks, self._workers)

    def start(self) -> None:
        """Start to fetch."""
        for worker in self._workers:
            worker.start()

    def wait(self) -> None:
        """Wait until the next batch can be read.

        Raises:
            StorageError: It cannot be fetched; names URL and shard.
            LoaderClosedError: The loader is being stopped.
        """
        for walk in self._walks:
            walk.wait()

    def release(self) -> None:
        """Say that the oldest batch that was waited for has been read."""
        for walk in self._walks:
            walk.release()

    def close(self) -> None:
        """Fetch nothing more. Safe to call twice, and after an interrupt."""
        _end(self._process, self._walks, self._workers)
        self._dropped.detach()


def _end(process: int, walks: Sequence[CacheReadAhead], workers: Sequence[Worker]) -> None:
    if os.getpid() != process:
        return  # a fork shares the locks on blocks, and to give them up there is to give them up here
    for walk in walks:
        walk.end()
    for worker in workers:
        worker.end(_PATIENCE)
