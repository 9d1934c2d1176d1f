"""Making one shard of a plan: an independent task that can be repeated, anywhere."""

from __future__ import annotations

import json
import secrets
import threading
from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..concurrency.bounded_map import bounded_map
from ..containers.base import container
from ..dataset.index import write_index
from ..dataset.strings import take_strings
from ..files.publishing import move_durably, remove, sync, sync_folder, write_durably
from ..sources.listing import Skip

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from .encoder import EncodedRecord
    from .plan import ConversionPlan, PlannedShard

__all__ = ["Cancelled", "ShardResult", "finished_shard", "shard_files", "write_shard"]

# Source bytes that one task of the pool works on: several in flight are little memory.
_CHUNK_BYTES = 1 << 20

Tally = Callable[[int, int], None]
"""Called with samples and bytes that have been dealt with since the last call, from any thread."""


class Cancelled(Exception):  # noqa: N818 - no error: another shard failed, or the user interrupted
    """The conversion is being stopped."""


@dataclass(frozen=True)
class ShardResult:
    """What a finished shard holds.

    Attributes:
        bytes: Size of the data file.
        records: Number of records.
        digest: CRC32C of the data file, ``crc32c:%08x``.
        skipped: Files and objects that were left out, in the order of the plan.
    """

    bytes: int
    records: int
    digest: str
    skipped: tuple[Skip, ...]


def shard_files(state: Path, number: int, kind: str) -> dict[str, Path]:
    """Where a finished shard lies until it is published: shard, idx (of TFRecord), index and result."""
    names = {"shard": container(kind).SUFFIX, "index": ".arrow", "result": ".json"}
    if kind == "tfrecord":
        names["idx"] = ".idx"
    return {what: state / f"{number:05d}{suffix}" for what, suffix in names.items()}


def finished_shard(state: Path, number: int, kind: str) -> ShardResult | None:
    """Result of a shard that has been made already; None if it has not."""
    try:
        document = json.loads(shard_files(state, number, kind)["result"].read_text())
    except FileNotFoundError:
        return None
    document["skipped"] = tuple(Skip(*skip) for skip in document["skipped"])
    return ShardResult(**document)


def write_shard(
    plan: ConversionPlan,
    number: int,
    state: Path,
    *,
    pool: ThreadPoolExecutor | None = None,
    ahead: int = 4,
    tally: Tally | None = None,
    stop: threading.Event | None = None,
) -> ShardResult:
    """Make shard ``number`` of a plan, or find that it has been made.

    Everything is written under an unpredictable name, synced and renamed; the result comes last. So a
    shard is there with all that belongs to it or it is not there, whoever is killed, and if two make
    the same shard at once both make the same bytes.

    Args:
        plan: The plan.
        number: Position in ``plan.shards``.
        state: Folder of the unfinished conversion.
        pool: Threads that read and encode; the calling thread alone by default.
        ahead: Chunks of about a megabyte that they may be ahead of the writing.
        tally: Told of progress.
        stop: Set when the conversion is being stopped.

    Raises:
        Cancelled: ``stop`` was set.
        StokerError: A sample would be skipped and the plan is strict.
        OSError: The shard cannot be written.
    """
    kind = plan.options.container
    if (result := finished_shard(state, number, kind)) is not None:
        return result
    attempt = state / f"attempt-{secrets.token_hex(8)}"
    attempt.mkdir()
    try:
        made = shard_files(attempt, number, kind)
        task = _ShardTask(plan, plan.shards[number], stop or threading.Event(), tally or _no_tally)
        result = task.run(made["shard"], made["index"], pool, ahead)
        sync(attempt)
        final = shard_files(state, number, kind)
        for what in final.keys() - {"result"}:
            move_durably(made[what], final[what])
        sync_folder(state)
        write_durably(final["result"], json.dumps(asdict(result)).encode())
    finally:
        remove(attempt)
    return result


def _no_tally(samples: int, size: int) -> None:
    """Nobody wants to know."""


class _ShardTask:
    """Reads, encodes and writes the samples of one shard in order."""

    def __init__(
        self, plan: ConversionPlan, shard: PlannedShard, stop: threading.Event, tally: Tally
    ) -> None:
        self._plan = plan
        self._shard = shard
        self._stop = stop
        self._tally = tally
        self._sizes = plan.listing.bytes[shard.rows]

    def run(self, path: Path, index_path: Path, pool: ThreadPoolExecutor | None, ahead: int) -> ShardResult:
        """Write the shard and its part of the index."""
        # A shard may have millions of records: what is kept of each are numbers, not objects.
        attributes, written = array("q"), array("q")
        skipped: list[Skip] = []
        details: list[Any] = []
        with container(self._plan.options.container).Writer(path) as writer:
            for chunk, outcomes in self._outcomes(pool, ahead):
                for i, outcome in zip(chunk, outcomes, strict=True):
                    if isinstance(outcome, Skip):
                        skipped.append(outcome)
                        continue
                    writer.write(outcome.key.encode(), outcome.prefix, outcome.payload, outcome.suffix)
                    attributes.extend(outcome.attributes)
                    written.append(i)
                    details.append(outcome.details)
                    skipped += outcome.skipped
                self._tally(len(chunk), int(self._sizes[chunk.start : chunk.stop].sum()))
            shard = writer.finish()
        encoder = self._plan.encoder
        table = np.array(attributes).reshape(-1, len(encoder.attributes))
        rows = self._shard.rows[np.array(written)]
        columns = {
            "shard": np.full(len(written), self._shard.position),
            "record": np.arange(len(written)),
            "offset": shard.offset,
            "length": shard.length,
            "crc": shard.crc,
            "key": take_strings(self._plan.listing.keys, rows),
        }
        for (name, kind), values in zip(encoder.attributes.items(), table.T, strict=True):
            columns[name] = values.astype(kind)
        own = encoder.columns(rows, details, shard.offset + shard.length)
        write_index(index_path, {**columns, **own})
        return ShardResult(shard.data_bytes, shard.records, shard.digest, tuple(skipped))

    def _outcomes(
        self, pool: ThreadPoolExecutor | None, ahead: int
    ) -> Iterator[tuple[range, list[EncodedRecord | Skip]]]:
        """Chunks in order, each encoded; a bounded number of them ahead."""
        chunks = _chunks(self._sizes.tolist(), self._plan.encoder.chunk_samples)
        if pool is None:
            for chunk in chunks:
                yield chunk, self._encode(chunk)
            return
        yield from bounded_map(pool, ((chunk, partial(self._encode, chunk)) for chunk in chunks), ahead)

    def _encode(self, chunk: range) -> list[EncodedRecord | Skip]:
        outcomes: list[EncodedRecord | Skip] = []
        encoder = self._plan.encoder
        for outcome in encoder.encode(self._shard.rows[chunk.start : chunk.stop]):
            if self._stop.is_set():
                raise Cancelled
            if isinstance(outcome, Skip) and self._plan.options.strict:
                raise encoder.refusal(outcome)
            outcomes.append(outcome)
        return outcomes


def _chunks(sizes: list[int], most: int) -> Iterator[range]:
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and (i - start >= most or total + size > _CHUNK_BYTES):
            yield range(start, i)
            start, total = i, 0
        total += size
    if start < len(sizes):
        yield range(start, len(sizes))
