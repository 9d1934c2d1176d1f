"""The reads of a pass over a remote dataset: payloads of batches, parts of long ones, and their blocks.

Producers state the :class:`BatchReads` of each batch, and the read-ahead plans what it fetches for them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.formats.remote.cached_dataset import CachedDataset, CachedFiles, PartChecksums, Ranges

from .block_requests import BlockRequest, BlockRequests
from .planned_draws import NextUse

Int64 = npt.NDArray[np.int64]


class BatchReads(NamedTuple):
    """The payloads that a batch reads."""

    rows: Int64  # (N,) int64, the index row of each payload
    # (N, 2) int64, the bytes that are read of each payload: the first, and the one after the last
    slices: Int64 | None = None
    # The last moment of the batch on any rank, counted over all epochs; see :class:`PlannedDraws`
    moment: int | None = None


@dataclass(frozen=True, eq=False)
class CacheHandle:
    """A remote dataset, its cached files and the requests of one loader."""

    dataset: CachedDataset  # The dataset
    files: CachedFiles  # Its cached data files, opened for this loader
    requests: BlockRequests  # Requests for their blocks
    last_use: Int64  # (B,) int64, last use of every block in nanoseconds of the monotonic clock
    part_checksums: PartChecksums  # Checksums of parts of long payloads that the loader has read
    next_use: NextUse | None = None  # Tells the next use of blocks; None if the draws are unknown

    def used(self, blocks: Int64, moment: int | None) -> None:
        """Record that a batch has read blocks, (M,) int64; ``moment`` is that of :class:`BatchReads`."""
        if self.next_use is not None and moment is not None:
            self.last_use[blocks] = -self.next_use.after(blocks, moment)
        else:
            self.last_use[blocks] = time.monotonic_ns()


class PayloadParts(NamedTuple):
    """Parts of long payloads, without checksums, and (M,) int64, the row of each."""

    ranges: Ranges
    rows: Int64


@dataclass(eq=False)
class PlannedReads:
    """The payloads and parts that are fetched for a batch."""

    ranges: Ranges  # Payloads that the batch reads whole
    parts: PayloadParts | None  # Parts of other payloads; None if it reads all payloads whole
    blocks: Int64  # Blocks of all of these
    moment: int | None = None  # See :class:`BatchReads`
    requests: set[BlockRequest] = field(default_factory=set)  # Requests in flight for the blocks


def plan_batch(cache: CacheHandle, reads: BatchReads) -> PlannedReads:
    """Find the ranges and the blocks that a batch reads."""
    dataset, files, rows = cache.dataset, cache.files.blocks, reads.rows
    if reads.slices is None:
        ranges = dataset.ranges(rows)
        blocks = files.covering(ranges.shard, ranges.offset, ranges.length)
        return PlannedReads(ranges, None, blocks, reads.moment)
    sizes = reads.slices[:, 1] - reads.slices[:, 0]
    lengths = dataset.index.column("length")[rows]
    in_parts = (lengths > files.block_bytes) & (sizes < lengths)
    ranges = dataset.ranges(np.unique(rows[~in_parts]))
    parts, payload = cache.part_checksums.parts(dataset.ranges(rows[in_parts]), reads.slices[in_parts])
    spans = (np.concatenate(columns) for columns in zip(ranges[:3], parts[:3], strict=True))
    payloads = PayloadParts(parts, rows[in_parts][payload])
    return PlannedReads(ranges, payloads, files.covering(*spans), reads.moment)
