"""A model of reading ahead from storage with latency: a discrete-event simulation, and a measurement.

The simulation follows :mod:`stoker.pipeline.caching.cache_prefetcher`. Batches are fetched in growing groups,
at most ``depth`` batches ahead of the consumer. Each block is fetched once, neighbours in one request, with a
bounded number of requests in flight. Storage answers a request after its latency; the answers share one link.
"""

from __future__ import annotations

import heapq
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import numpy.typing as npt
from fsspec.implementations.local import LocalFileSystem

import stoker
from stoker.benchmarks.storage.synthetic import make_dataset
from stoker.formats.remote.block_files import BLOCK_BYTES
from stoker.pipeline.caching.cache_prefetcher import CachePrefetcher
from stoker.pipeline.caching.planned_reads import BatchReads

Int64 = npt.NDArray[np.int64]

_REQUEST_BYTES = 8 << 20
_GROUP_BYTES = 32 << 20
_GROUP_BATCHES = 64


@dataclass(frozen=True)
class Storage:
    """A storage that answers requests."""

    latency: float  # Seconds from a request to the first byte of its answer
    connections: int  # Largest number of requests in flight
    bytes_per_second: float = 1.25e9  # 10 Gbit/s


@dataclass(frozen=True)
class Data:
    """The layout of samples in shards."""

    sample_bytes: int  # Size of every sample
    shard_bytes: int = 256_000_000  # Approximate size of every shard

    def blocks(self, rows: Int64) -> Int64:
        """Return the blocks of these samples, ascending and distinct; a gap separates shards."""
        per_shard = self.shard_bytes // self.sample_bytes
        first = rows // per_shard * (self.shard_bytes // BLOCK_BYTES + 2)
        offset = rows % per_shard * self.sample_bytes
        most = -(-self.sample_bytes // BLOCK_BYTES) + 1
        steps = np.minimum(np.arange(most) * BLOCK_BYTES, self.sample_bytes - 1)
        return np.unique(first[:, None] + (offset[:, None] + steps) // BLOCK_BYTES)


def simulate(
    batches: Sequence[Int64], data: Data, storage: Storage, step_seconds: float, depth: int
) -> float:
    """Return the share of the time in which the consumer waits, from the second batch on."""
    free = [0.0] * storage.connections  # the time at which each connection is free
    link = 0.0
    arrival: dict[int, float] = {}  # by block
    ends: list[float] = []
    for group in _groups(batches, data, depth):
        behind = group[0][0] - depth
        issued = ends[behind] if behind >= 0 else 0.0
        wanted = np.unique(np.concatenate([blocks for _, blocks in group]))
        for low, high in _runs([block for block in wanted.tolist() if block not in arrival]):
            answered = max(heapq.heappop(free), issued) + storage.latency
            link = max(link, answered) + (high - low) * BLOCK_BYTES / storage.bytes_per_second
            heapq.heappush(free, link)
            arrival.update(dict.fromkeys(range(low, high), link))
        for _, blocks in group:
            ready = max(arrival[block] for block in blocks.tolist())
            ends.append(max(ready, ends[-1] if ends else 0.0) + step_seconds)
    return max(0.0, 1 - step_seconds * (len(ends) - 1) / (ends[-1] - ends[0]))


def _groups(batches: Sequence[Int64], data: Data, depth: int) -> Iterator[list[tuple[int, Int64]]]:
    most, number, at = 1, count(), 0
    while at < len(batches):
        group: list[tuple[int, Int64]] = []
        size = held = 0
        while at < len(batches) and len(group) < most:
            group.append((next(number), data.blocks(batches[at])))
            size = len(group[-1][1]) * BLOCK_BYTES
            held += size
            at += 1
            if held > min(_GROUP_BYTES, depth * size // 4):
                break
        yield group
        most = min(2 * most, _GROUP_BATCHES)


def _runs(blocks: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and runs[-1][1] == block and (block - runs[-1][0]) * BLOCK_BYTES < _REQUEST_BYTES:
            runs[-1] = (runs[-1][0], block + 1)
        else:
            runs.append((block, block + 1))
    return runs


class _SlowFiles(LocalFileSystem):
    """A local file system that answers after a latency."""

    protocol = "slow"
    cachable = False
    latency = 0.0

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        time.sleep(self.latency)
        return bytes(super().cat_file(path, start=start, end=end))


def measure(batches: Sequence[Int64], data: Data, storage: Storage, step_seconds: float, depth: int) -> float:
    """Return what :func:`simulate` returns, measured with the prefetcher of the loader.

    The arguments are those of :func:`simulate`. The files are local and answer after the latency.
    """
    samples = max(int(rows.max()) for rows in batches) + 1
    fsspec.register_implementation("slow", _SlowFiles, clobber=True)
    with tempfile.TemporaryDirectory(prefix="stoker-scale-") as scratch:
        source = make_dataset(Path(scratch) / "source", samples, data.sample_bytes, data.shard_bytes)
        ahead = depth * len(data.blocks(batches[0])) * BLOCK_BYTES
        dataset = stoker.open(f"slow://{source}", cache=Path(scratch) / "cache")
        staging = CachePrefetcher(dataset, connections=storage.connections, ahead=ahead)
        _SlowFiles.latency = storage.latency
        staged = staging.begin(lambda: map(BatchReads, batches))
        marks = []
        for _ in batches:
            staged.wait()
            time.sleep(step_seconds)
            staged.release()
            marks.append(time.monotonic())
        _SlowFiles.latency = 0.0
        staging.close()
    return 1 - step_seconds * (len(marks) - 1) / (marks[-1] - marks[0])
