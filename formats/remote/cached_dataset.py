"""A remote dataset with a local cache, which keeps the parts of the shards that have been read.

The way of a byte: :class:`.store.Store` reads a range at a URL, :class:`.block_files.BlockFiles` writes it
into a sparse file, and :class:`CachedFiles` compares it with the checksum of its payload.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stoker._native import crc32c
from stoker.errors import CorruptRecordError, LockedError, SampleError, StokerError, WriteError, with_details
from stoker.processes import PerProcess
from stoker.urls import without_credentials

from ..dataset.dataset import Dataset
from ..dataset.index import NO_CHECKSUM, is_index_whole, open_index
from ..dataset.manifest import TOKENIZER_NAME
from ..files import folder_lock, open_regular, parse_byte_size, read_at, remove
from .block_files import FULL_DISK, BlockFiles, Blocks, is_read_only, make_private_folder
from .stage import RemoteDataset, check_local, fetch_files, open_remote
from .store import RangeReader

Int64 = npt.NDArray[np.int64]

_INDEX_STATE = ".index"
_CONNECTIONS = 16
_REPEATS = 3  # because a network that damages one answer may damage the next
_POLL = 0.05  # seconds between two tries for a lock that another rank holds


class Ranges(NamedTuple):
    """Ranges of bytes in data files, with their checksums; (N,) int64 each."""

    shard: Int64  # Number of the data file
    offset: Int64  # First byte
    length: Int64  # Number of bytes
    crc: Int64  # CRC32C of the bytes


def block_files(remote: RemoteDataset, folder: Path) -> BlockFiles:
    """Return the blocks of the data files of a remote dataset, which are kept in a folder."""
    shards = remote.shards
    return BlockFiles(folder, [shard.name for shard in shards], [shard.size for shard in shards])


class CachedFiles:
    """The data files of a cached dataset for one reader, with its locks, until ``stop`` is set."""

    def __init__(
        self, remote: RemoteDataset, folder: Path, limit: int | None, stop: threading.Event | None = None
    ) -> None:
        self.blocks = block_files(remote, folder)
        self.blocks.claim(limit)
        # Returns bytes ``start`` to ``stop - 1`` of a file: fetch(file, start, stop)
        self.fetch = RangeReader([shard.url for shard in remote.shards], stop or threading.Event())

    @contextmanager
    def present(self, ranges: Ranges) -> Iterator[None]:
        """Fetch and check the missing parts of ranges, and keep all of them in the cache during the block."""
        blocks = self.blocks.covering(ranges.shard, ranges.offset, ranges.length)
        self.blocks.pin(blocks)
        try:
            self._fill(blocks)
            self.check(ranges)
            yield
        finally:
            self.blocks.unpin(blocks)

    def check(self, ranges: Ranges) -> list[int]:
        """Compare ranges with their checksums; fetch one that differs again, a few times."""
        # Returns the indexes of the ranges that stay damaged.
        damaged: list[int] = []
        if self.blocks.is_read_only:
            return damaged  # a damaged range cannot be fetched again; reading it raises the error
        has_checksum = ranges.crc != NO_CHECKSUM
        for shard in np.unique(ranges.shard[has_checksum]).tolist():
            indices = np.flatnonzero(has_checksum & (ranges.shard == shard))
            with cache_errors(self.blocks.folder), open_regular(self.blocks.paths[shard]) as (descriptor, _):
                for i in indices.tolist():
                    offset, length = int(ranges.offset[i]), int(ranges.length[i])
                    for _ in range(_REPEATS):
                        if crc32c(read_at(descriptor, offset, length)) == ranges.crc[i]:
                            break
                        one = (column[i : i + 1] for column in ranges[:3])
                        self._fill(self.blocks.covering(*one), again=True)
                    else:
                        damaged.append(i)
        return damaged

    def shrink(self) -> None:
        """Evict blocks that are not pinned, until the cache is within the largest limit of all readers."""
        limit = self.blocks.largest_limit
        if limit is not None and (excess := self.blocks.present_bytes - limit) > 0:
            self._evict(excess)

    def _evict(self, excess: int) -> int:
        return self.blocks.evict(excess, np.zeros(int(self.blocks.first[-1]), np.int64))

    def _fill(self, blocks: Blocks, *, again: bool = False) -> None:
        with cache_errors(self.blocks.folder):
            for low, high in self.blocks.runs(blocks):
                self.blocks.fill(low, high, self.fetch, again=again, make_room=self._evict)


class CachedDataset(Dataset):
    """A dataset with a part of its data files in a cache; missing parts read as zeros."""

    is_remote = True

    def __init__(self, remote: RemoteDataset, folder: Path, limit: int | None) -> None:
        index = open_index(folder, remote.manifest)
        super().__init__(folder, remote.manifest, index, [folder / shard.name for shard in remote.shards])
        self.remote = remote
        self.limit = limit
        self._sizes = np.array(self.data_sizes, np.int64)
        self._files = PerProcess(partial(CachedFiles, remote, folder, limit))  # locks belong to one process

    @property
    def address(self) -> str:
        return without_credentials(self.remote.store.url)

    def tokenizer_file(self) -> bytes:
        return self.remote.store.read(TOKENIZER_NAME)

    def open_files(self, stop: threading.Event) -> CachedFiles:
        """Return the data files for another reader, which ends when ``stop`` is set."""
        return CachedFiles(self.remote, self.path, self.limit, stop)

    def _read(self, position: int, byte_range: tuple[str, ...], what: str) -> bytes:
        with self._files.get().present(self.ranges(self._to_rows([position]))):
            data = super()._read(position, byte_range, what)
        self._files.get().shrink()
        return data

    def error(
        self,
        position: int,
        message: str,
        error_type: type[SampleError] = CorruptRecordError,
        hint: str | None = None,
    ) -> SampleError:
        error = super().error(position, message, error_type, hint)
        urls = {file.shard: file.url for file in self.remote.shards}
        return with_details(error, path=urls.get(error.shard, self.remote.store.url))

    def ranges(self, rows: Int64) -> Ranges:
        """Return the ranges of the payloads, masks and arrays of rows, without any outside of their files."""
        parts = []
        prefixes = ["mask_"] if "mask_offset" in self.index.types else []
        for prefix in ("", *prefixes, *(f"{name}_" for name in self.arrays)):
            names = ("shard", f"{prefix}offset", f"{prefix}length", f"{prefix}crc")
            parts.append([self.index.column(name)[rows].astype(np.int64) for name in names])
        shard, offset, length, crc = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        sizes = self._sizes
        valid = (shard >= 0) & (shard < len(sizes)) & (length > 0) & (offset >= 0)
        valid[valid] = length[valid] <= sizes[shard[valid]] - offset[valid]
        return Ranges(shard[valid], offset[valid], length[valid], crc[valid])


def open_cached(
    url: str | os.PathLike[str],
    cache: str | os.PathLike[str],
    size: str | int | None = None,
    version: int | None = None,
    signed: Sequence[str] = (),
) -> CachedDataset:
    """Open a remote dataset with a local cache, whose folder several processes may share."""
    # ``signed`` are the URLs with credentials of shards that lie elsewhere; no manifest has them.
    check_local(cache=cache)
    limit = None if size is None else parse_byte_size("cache_size", size)
    stop = threading.Event()
    remote = open_remote(url, stop, version, signed)
    folder = Path(cache) / remote.manifest.cache_name
    with cache_errors(folder):
        make_private_folder(folder)
        with _waiting_lock(folder, stop):
            state, index = folder / _INDEX_STATE, folder / remote.index.name
            if not is_index_whole(index, remote.manifest):
                remove(index)  # it is damaged; readers that have it open keep it
                fetch_files([remote.index], folder, state, stop, connections=_CONNECTIONS)
            if state.exists():
                remove(state)  # a killed process may have left it beside a whole index
            for shard in remote.shards:
                (folder / shard.name).parent.mkdir(parents=True, exist_ok=True)
            blocks = block_files(remote, folder)
            if limit is not None and not blocks.is_read_only:
                blocks.check_evictable()
            blocks.close()
    return CachedDataset(remote, folder, limit)


@contextmanager
def _waiting_lock(folder: Path, stop: threading.Event) -> Iterator[None]:
    """Hold the lock of a folder, after waiting for other ranks that hold it; none on a read-only mount."""
    with ExitStack() as locks:
        while not is_read_only(folder):
            try:
                locks.enter_context(folder_lock(folder))
                break
            except LockedError:
                if stop.wait(_POLL):
                    raise
        yield


@contextmanager
def cache_errors(folder: Path) -> Iterator[None]:
    """Raise an operating system's error about the folder of a cache as a WriteError with a hint."""
    try:
        yield
    except StokerError:
        raise
    except OSError as error:
        if error.errno in FULL_DISK:
            message = "the disk of the cache is full"
            hint = "Make room for the batches in flight, or give the loader a smaller batch_size or prefetch."
        elif error.errno == errno.EROFS:
            message = "the cache is read-only, and lacks a part of the dataset or holds a damaged one"
            hint = "Mount it for writing, or name another folder with cache=."
        elif error.errno == errno.ELOOP:
            message, hint = "the cache holds a link instead of a file", "Remove its folder of this dataset."
        elif error.errno == errno.ENOENT:
            message = "a file of the cache was removed while a loader used it"
            hint = "Open the dataset and load it again; keep the cache until the run has ended."
        else:
            message = f"the cache cannot be written: {error.strerror or error}"
            hint = "Name a folder with cache= that this process may write into."
        raise WriteError(message, path=error.filename or folder, hint=hint) from error


class PartChecksums:
    """Checksums of the parts that payloads of more than one block have in each block.

    The index has one checksum for a payload. Once a whole payload has been compared with it, a loader keeps
    a checksum for the part in each block. It can then fetch a block that was evicted without the rest of the
    payload, and still notice damage. A block holds at most two such parts: one that begins with the block,
    and the beginning of a payload.
    """

    def __init__(self, files: BlockFiles) -> None:
        self._files = files
        # The kernel gives memory only to pages that are used.
        self._crcs = np.zeros((int(files.first[-1]), 2), np.uint32)

    def parts(self, payloads: Ranges, slices: Int64) -> tuple[Ranges, Int64]:
        """Return the parts of payloads in the blocks that slices of them touch; their checksums are 0."""
        # slices (N, 2) int64
        size = self._files.block_bytes
        parts = []
        columns = (*payloads[:3], *slices.T)
        for number, (shard, offset, length, begin, end) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            for block in range((offset + begin) // size * size, offset + end, size):
                low, high = max(block, offset), min(block + size, offset + length)
                parts.append((shard, low, high - low, 0, number))
        table = np.array(parts, np.int64).reshape(-1, 5)
        return Ranges(*table.T[:4]), table[:, 4]

    def keep(self, payloads: Ranges) -> None:
        """Keep the checksums of the parts of payloads that are present and have been checked."""
        long = payloads.length > self._files.block_bytes
        payloads = Ranges(*(column[long] for column in payloads))
        parts, _ = self.parts(payloads, np.stack((np.zeros_like(payloads.length), payloads.length), axis=1))
        crcs = np.zeros(len(parts.shard), np.uint32)
        for shard in np.unique(parts.shard).tolist():
            with open_regular(self._files.paths[shard]) as (descriptor, _):
                for i in np.flatnonzero(parts.shard == shard).tolist():
                    crcs[i] = crc32c(read_at(descriptor, int(parts.offset[i]), int(parts.length[i])))
        self._crcs[self._slots(parts)] = crcs

    def with_checksums(self, parts: Ranges) -> Ranges:
        return parts._replace(crc=self._crcs[self._slots(parts)].astype(np.int64))

    def _slots(self, parts: Ranges) -> tuple[Int64, Int64]:
        size = self._files.block_bytes
        blocks = self._files.first[parts.shard] + parts.offset // size
        return blocks, (parts.offset % size != 0).astype(np.int64)
