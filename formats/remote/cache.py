"""The part of a remote dataset that is here, for a loader that fetches what it needs next."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stoker.errors import CorruptRecordError, LockedError
from stoker.formats.consistency import open_index
from stoker.formats.dataset import Dataset
from stoker.formats.manifest import INDEX_NAME
from stoker.formats.publish import folder_lock, os_errors, remove
from stoker.formats.remote.blocks import BlockFiles
from stoker.formats.remote.dataset import open_remote
from stoker.formats.remote.stage import FileFetcher, no_progress

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import numpy.typing as npt

    from stoker.errors import SampleError
    from stoker.formats.remote.dataset import RemoteDataset

    Int64 = npt.NDArray[np.int64]

__all__ = ["CachedDataset", "Ranges", "open_cached"]

_INDEX_STATE = ".index"
_CONNECTIONS = 16
_POLL = 0.05  # seconds between two looks at a lock that another rank has


class Ranges(NamedTuple):
    """Where what a batch reads lies: (N,) each.

    Attributes:
        shard: Which data file.
        offset: First byte.
        length: Bytes.
        crc: CRC32C of them.
    """

    shard: Int64
    offset: Int64
    length: Int64
    crc: Int64


class CachedDataset(Dataset):
    """A dataset whose data files are here in part; what is missing of them reads as zeros.

    Attributes:
        remote: Where it is whole.
        blocks: Which blocks of the data files are here.
    """

    def __init__(self, remote: RemoteDataset, folder: Path, blocks: BlockFiles) -> None:
        index = open_index(folder, remote.manifest)
        super().__init__(folder, remote.manifest, index, blocks.paths, None)
        self.remote = remote
        self.blocks = blocks

    def __repr__(self) -> str:
        return f"<Dataset {self.remote.store.url!r}: {len(self)} samples of {len(self.classes)} classes>"

    def read_remote(self, shard: int, start: int, stop: int) -> bytes:
        """Bytes ``start`` to ``stop - 1`` of a data file, from where it is whole.

        Raises:
            StorageError: They cannot be read; names URL and shard.
        """
        return self.remote.store.read_range(self.remote.shards[shard].name, start, stop)

    def error(
        self,
        position: int,
        message: str,
        kind: type[SampleError] = CorruptRecordError,
        hint: str | None = None,
    ) -> SampleError:
        """See :meth:`Dataset.error`; the path is the URL of the shard."""
        error = super().error(position, message, kind, hint)
        names = {file.shard: file.name for file in self.remote.shards}
        store = self.remote.store
        path = store.at(names[error.shard]) if error.shard in names else store.url
        return kind(
            message, path=path, shard=error.shard, record=error.record, key=error.key, hint=error.hint
        )

    def ranges(self, rows: Int64) -> Ranges:
        """Where payloads, and masks if there are any, of some rows lie; what an index forges is left out.

        Args:
            rows: (N,) int64, of the index.
        """
        parts = []
        for prefix in ("", *(["mask_"] if "mask_offset" in self.index.types else [])):
            names = ("shard", f"{prefix}offset", f"{prefix}length", f"{prefix}crc")
            parts.append([self.index.column(name)[rows].astype(np.int64) for name in names])
        shard, offset, length, crc = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        sizes = self.blocks.sizes
        good = (shard >= 0) & (shard < len(sizes)) & (length > 0) & (offset >= 0)
        good[good] = length[good] <= sizes[shard[good]] - offset[good]
        return Ranges(shard[good], offset[good], length[good], crc[good])


def open_cached(
    url: str | os.PathLike[str],
    cache: str | os.PathLike[str],
    *,
    evicts: bool,
    stop: threading.Event | None = None,
) -> CachedDataset:
    """Open a remote dataset, for which a folder keeps what has been fetched.

    The index comes first and is checked. Several processes may open the same dataset in the same folder.

    Args:
        url: Of the dataset's folder, or its path on a network file system.
        cache: Folder on a local disk; each dataset has a folder of its own in it.
        evicts: Whether parts are to be given up again.
        stop: Ends all reading when it is set.

    Raises:
        ConfigError: ``evicts``, and the file system cannot free parts of a file.
        DatasetError: There is no dataset at the URL.
        StorageError: It cannot be read, or its index arrives damaged.
        WriteError: The disk is full or refuses a write.
    """
    stop = stop or threading.Event()
    remote = open_remote(url, stop)
    folder = Path(cache) / remote.manifest.fingerprint
    with os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _waiting_lock(folder, stop):
            if not (folder / INDEX_NAME).exists():
                state = folder / _INDEX_STATE
                FileFetcher(remote, [remote.index], folder, state, stop).run(_CONNECTIONS, no_progress)
                remove(state)
            for shard in remote.shards:
                (folder / shard.name).parent.mkdir(parents=True, exist_ok=True)
            blocks = BlockFiles(
                folder, [shard.name for shard in remote.shards], [shard.size for shard in remote.shards]
            )
            if evicts:
                blocks.check_evictable()
    return CachedDataset(remote, folder, blocks)


@contextmanager
def _waiting_lock(folder: Path, stop: threading.Event) -> Iterator[None]:
    """Hold the folder's lock, when the rank that has it is done."""
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(folder_lock(folder))
                break
            except LockedError:
                if stop.wait(_POLL):
                    raise
        yield
