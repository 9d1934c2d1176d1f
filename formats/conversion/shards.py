"""Writing one shard of a plan: an independent task that can be repeated anywhere."""

from __future__ import annotations

import json
import secrets
import threading
from array import array
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..concurrency.bounded_map import bounded_map
from ..containers.registry import find_container, find_writing
from ..dataset.columns.strings import take_strings
from ..dataset.index_writing import write_index
from ..files.publishing import move_durably, remove, sync, sync_folder, write_durably
from ..sources.listing import Skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from .encoder import EncodedRecord
    from .plan import ConversionPlan, PlannedShard

__all__ = [
    "Cancelled",
    "ShardContext",
    "ShardResult",
    "finished_shard",
    "published_names",
    "shard_files",
    "write_shard",
]

_CHUNK_BYTES = 1 << 20  # of the source, in one task of the pool: several in flight take little memory


class Cancelled(Exception):  # noqa: N818 - no error: another shard failed, or the user interrupted
    """The conversion is being stopped."""


def _ignore_progress(samples: int, size: int) -> None:
    """Count nothing: the default."""


@dataclass(frozen=True)
class ShardContext:
    """Resources that a runner shares among the shards that it writes.

    Attributes:
        pool: Threads that read and encode; None for the calling thread.
        ahead: Chunks of about a megabyte that the pool encodes before they are written.
        count: Called from any thread with the samples, and their bytes in the source, that are done.
        stop: Set when the conversion is being stopped.
    """

    pool: ThreadPoolExecutor | None = None
    ahead: int = 4
    count: Callable[[int, int], None] = _ignore_progress
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class ShardResult:
    """The content of a finished shard.

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


def shard_files(state: Path, number: int, container: str) -> dict[str, Path]:
    """Return the files of a finished shard until it is published: shard, index, result, and its sidecars.

    Each sidecar file has its suffix as key.
    """
    suffixes = {"shard": find_writing(container).suffix, "index": ".arrow", "result": ".json"}
    suffixes |= {sidecar.suffix: sidecar.suffix for sidecar in find_container(container).sidecars}
    return {file: state / f"{number:05d}{suffix}" for file, suffix in suffixes.items()}


def published_names(name: str, container: str) -> dict[str, str]:
    """Return the names in a dataset of the shard ``name`` and its sidecar files, with the same keys."""
    sidecars = find_container(container).sidecars
    return {"shard": name} | {sidecar.suffix: sidecar.name(name) for sidecar in sidecars}


def finished_shard(state: Path, number: int, container: str) -> ShardResult | None:
    """Result of a shard that is finished; None if it is not."""
    try:
        document = json.loads(shard_files(state, number, container)["result"].read_text())
    except FileNotFoundError:
        return None
    document["skipped"] = tuple(Skip(*skip) for skip in document["skipped"])
    return ShardResult(**document)


def write_shard(
    plan: ConversionPlan, number: int, state: Path, context: ShardContext | None = None
) -> ShardResult:
    """Write shard ``number`` of a plan, or find that it is finished.

    Every file is written under an unpredictable name, synced and renamed; the result comes last. So a
    shard is there with all its files or not at all, whichever process is killed. If two processes write the
    same shard at once, both write the same bytes.

    Args:
        plan: The plan.
        number: Position in ``plan.shards``.
        state: Folder of the unfinished conversion.
        context: Resources of the runner; by default the calling thread does all the work.

    Raises:
        Cancelled: ``context.stop`` was set.
        StokerError: A sample would be skipped and the plan is strict.
        OSError: The shard cannot be written.
    """
    container = plan.options.container
    if (result := finished_shard(state, number, container)) is not None:
        return result
    attempt = state / f"attempt-{secrets.token_hex(8)}"
    attempt.mkdir()
    try:
        written = shard_files(attempt, number, container)
        task = _ShardTask(plan, plan.shards[number], context or ShardContext())
        result = task.run(written["shard"], written["index"])
        sync(attempt)
        final = shard_files(state, number, container)
        for name in final.keys() - {"result"}:
            move_durably(written[name], final[name])
        sync_folder(state)
        write_durably(final["result"], json.dumps(asdict(result)).encode())
    finally:
        remove(attempt)
    return result


class _ShardTask:
    """Reads, encodes and writes the samples of one shard in order."""

    def __init__(self, plan: ConversionPlan, shard: PlannedShard, context: ShardContext) -> None:
        self._plan = plan
        self._shard = shard
        self._context = context
        self._sizes = plan.listing.bytes[shard.rows]

    def run(self, path: Path, index_path: Path) -> ShardResult:
        """Write the shard and its part of the index."""
        # A shard may have millions of records: arrays of numbers take less memory than objects.
        attributes, written = array("q"), array("q")
        skipped: list[Skip] = []
        details: list[Any] = []
        with find_writing(self._plan.options.container).writer(path) as writer:
            for chunk, outcomes in self._outcomes():
                for i, outcome in zip(chunk, outcomes, strict=True):
                    if isinstance(outcome, Skip):
                        skipped.append(outcome)
                        continue
                    writer.write(outcome.key.encode(), outcome.prefix, outcome.payload, outcome.suffix)
                    attributes.extend(outcome.attributes)
                    written.append(i)
                    details.append(outcome.details)
                    skipped += outcome.skipped
                self._context.count(len(chunk), int(self._sizes[chunk.start : chunk.stop].sum()))
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
        for (name, dtype), values in zip(encoder.attributes.items(), table.T, strict=True):
            columns[name] = values.astype(dtype)
        encoded = encoder.columns(rows, details, shard.offset + shard.length)
        write_index(index_path, {**columns, **encoded})
        return ShardResult(shard.data_bytes, shard.records, shard.digest, tuple(skipped))

    def _outcomes(self) -> Iterator[tuple[range, list[EncodedRecord | Skip]]]:
        """The chunks in order, each encoded; a bounded number of them are encoded ahead."""
        chunks = _chunks(self._sizes.tolist(), self._plan.encoder.chunk_samples)
        pool = self._context.pool
        if pool is None:
            for chunk in chunks:
                yield chunk, self._encode(chunk)
            return
        tasks = ((chunk, partial(self._encode, chunk)) for chunk in chunks)
        yield from bounded_map(pool, tasks, self._context.ahead)

    def _encode(self, chunk: range) -> list[EncodedRecord | Skip]:
        outcomes: list[EncodedRecord | Skip] = []
        encoder = self._plan.encoder
        for outcome in encoder.encode(self._shard.rows[chunk.start : chunk.stop]):
            if self._context.stop.is_set():
                raise Cancelled
            if isinstance(outcome, Skip) and self._plan.options.strict:
                raise encoder.strict_error(outcome)
            outcomes.append(outcome)
        return outcomes


def _chunks(sizes: list[int], most: int) -> Iterator[range]:
    """Split samples of these sizes into chunks of at most ``most`` samples and about a megabyte."""
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and (i - start >= most or total + size > _CHUNK_BYTES):
            yield range(start, i)
            start, total = i, 0
        total += size
    if start < len(sizes):
        yield range(start, len(sizes))
