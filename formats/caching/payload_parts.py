"""Ranges of bytes in data files, and parts of long payloads that a cache fetches and checks one by one.

The index has one checksum for a payload. Once a whole payload has been compared with it, a loader keeps a
checksum for the part in each block. It can then fetch a block that was evicted without the rest of the
payload, and still notice damage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stoker._native import crc32c

from ..files.reading import open_regular, read_at
from .block_files import BlockFiles

Int64 = npt.NDArray[np.int64]


class Ranges(NamedTuple):
    """Ranges of bytes in data files, with their checksums; (N,) int64 each."""

    shard: Int64  # Number of the data file
    offset: Int64  # First byte
    length: Int64  # Number of bytes
    crc: Int64  # CRC32C of the bytes


class PartChecksums:
    """Checksums of the parts that payloads of more than one block have in each block.

    A block holds at most two such parts: one that begins with the block, and the beginning of a payload.
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
        """Return parts with the checksums that :meth:`keep` has kept."""
        return parts._replace(crc=self._crcs[self._slots(parts)].astype(np.int64))

    def _slots(self, parts: Ranges) -> tuple[Int64, Int64]:
        """Return the block of each part, and its slot there: 0 if the part begins with the block."""
        size = self._files.block_bytes
        blocks = self._files.first[parts.shard] + parts.offset // size
        return blocks, (parts.offset % size != 0).astype(np.int64)
