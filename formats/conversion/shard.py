"""One shard and its part of the index while they are written, and how they become finished files.

``execution.py`` writes the shards of a plan with it, and :class:`stoker.Writer` those of given samples.
"""

from __future__ import annotations

import json
import secrets
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..containers.container import find_container, find_writing
from ..dataset.columns import Strings
from ..dataset.index import write_index
from ..dataset.manifest import Shard
from ..files import move_durably, remove, sync, sync_folder, write_durably
from ..sources.listing import BLANK, Skip
from ..threads import bounded_map
from .plan import ConversionPlan, EncodedRecord, IndexColumns, PlannedShard, Rows


@dataclass(frozen=True)
class ShardResult:
    """The content of a finished shard."""

    bytes: int  # Size of the data file
    records: int  # Number of records
    digest: str  # CRC32C of the data file, ``crc32c:%08x``
    sha256: str  # SHA-256 of the data file, 64 hexadecimal digits
    skipped: tuple[Skip, ...]  # Files and objects that were left out, in the order of the plan
    lost: Sequence[int] = ()  # Rows of the listing that were left out

    def named(self, name: str) -> Shard:
        """Return the entry of the shard in a manifest, under its final name."""
        return Shard(name, self.bytes, self.records, self.digest, sha256=self.sha256)


def shard_files(state: Path, number: int, container: str) -> dict[str, Path]:
    """Return the files of a finished shard until it is published: shard, index, result, and its sidecars."""
    # Each sidecar file has its suffix as key.
    suffixes = {"shard": find_writing(container).suffix, "index": ".arrow", "result": ".json"}
    suffixes |= {sidecar.suffix: sidecar.suffix for sidecar in find_container(container).sidecars}
    return {file: state / f"{number:05d}{suffix}" for file, suffix in suffixes.items()}


def finished_shard(state: Path, number: int, container: str) -> ShardResult | None:
    """Result of a shard that is finished; None if it is not."""
    try:
        document = json.loads(shard_files(state, number, container)["result"].read_text())
    except FileNotFoundError:
        return None
    document["skipped"] = tuple(Skip(*skip) for skip in document["skipped"])
    return ShardResult(**document)


@contextmanager
def new_attempt(state: Path) -> Iterator[Path]:
    """Make a folder of an unpredictable name for a shard that is written, and remove it at the end."""
    attempt = state / f"attempt-{secrets.token_hex(8)}"
    attempt.mkdir()
    try:
        yield attempt
    finally:
        remove(attempt)


class ShardFile:
    """A shard that is written record by record, with its part of the index.

    Every file is written in ``attempt``, synced and renamed; the result comes last. A shard without a result
    is made again, so that a killed process leaves a whole shard or none that counts.
    """

    def __init__(self, attempt: Path, number: int, container: str, columns: IndexColumns) -> None:
        self._attempt = attempt
        self._number = number
        self._container = container
        self._columns = columns
        self._files = shard_files(attempt, number, container)
        self._writer = find_writing(container).writer(self._files["shard"])
        # A shard may have millions of records: arrays of numbers take less memory than objects.
        self._attributes, self._rows = array("i"), array("q")
        self._keys = Strings()
        self._details: list[Any] = []  # empty as long as no record has any
        self._skipped: list[Skip] = []
        self._lost: list[int] = []
        self.bytes = 0
        """Bytes of the records so far, without what the container adds."""

    def __enter__(self) -> ShardFile:
        self._writer.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.__exit__(*exception)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, outcome: EncodedRecord | Skip, row: int) -> None:
        """Append a record, or note a skip; ``row`` is the number of the sample, for ``columns``."""
        if isinstance(outcome, Skip):
            self._skipped.append(outcome)
            self._lost.append(row)
            return
        key = outcome.key.encode()
        self._writer.write(key, outcome.prefix, outcome.payload, outcome.suffix)
        self.bytes += len(outcome.prefix) + len(outcome.payload) + len(outcome.suffix)
        self._attributes.extend(outcome.attributes)
        self._rows.append(row)
        self._keys.add(key)
        if outcome.details is not None or self._details:
            self._details += [None] * (len(self._rows) - 1 - len(self._details))
            self._details.append(outcome.details)
        self._skipped += outcome.skipped

    def finish(self, state: Path, number: int) -> ShardResult:
        """Write the index of the shard, ``number`` in its split, and move all files to ``state``."""
        shard = self._writer.finish()
        table = np.frombuffer(self._attributes, np.int32).reshape(-1, len(self._columns.attributes))
        rows = np.frombuffer(self._rows, np.int64)
        details = self._details or [None] * len(rows)
        columns = {
            "shard": np.full(len(rows), number, np.int32),
            "record": np.arange(len(rows)),
            "offset": shard.offset,
            "length": shard.length,
            "crc": shard.crc,
            "key": self._keys.to_arrow(),
        }
        for (name, dtype), values in zip(self._columns.attributes.items(), table.T, strict=True):
            columns[name] = values.astype(dtype)
        encoded = self._columns.columns(rows, details, shard.offset + shard.length)
        write_index(self._files["index"], {**columns, **encoded})
        result = ShardResult(
            shard.data_bytes, shard.records, *shard.digests, tuple(self._skipped), self._lost
        )
        sync(self._attempt)
        final = shard_files(state, self._number, self._container)
        for name in final.keys() - {"result"}:
            move_durably(self._files[name], final[name])
        sync_folder(state)
        write_durably(final["result"], json.dumps(asdict(result)).encode())
        return result


_CHUNK_BYTES = 1 << 20  # of the source, in one task of the pool: several in flight take little memory


class Cancelled(Exception):  # noqa: N818 - no error: another shard failed, or the user interrupted
    """The conversion is being stopped."""


@dataclass(frozen=True)
class ShardContext:
    """Resources that the shards written by one process share."""

    pool: ThreadPoolExecutor | None = None  # Threads that read and encode; None for the calling thread
    ahead: int = 4  # Chunks of about a megabyte that the pool encodes before they are written
    # Called from any thread with the samples, and their bytes in the source, that are done
    count: Callable[[int, int], object] = lambda samples, size: None
    stop: threading.Event = field(default_factory=threading.Event)  # Set when the conversion is being stopped


def write_shard(
    state: Path, plan: ConversionPlan, number: int, context: ShardContext | None = None
) -> ShardResult:
    """Write shard ``number`` of a plan into the folder of an unfinished conversion, if it is not there.

    Without a context the calling thread does all the work.

    If two processes write the same shard at once, both write the same bytes.
    """
    container, planned = plan.options.container, plan.shards[number]
    if (result := finished_shard(state, number, container)) is not None:
        return result
    with new_attempt(state) as attempt, ShardFile(attempt, number, container, plan.encoder) as shard:
        _write_samples(shard, plan, planned, context or ShardContext())
        return shard.finish(state, planned.number_in_split)


def _write_samples(file: ShardFile, plan: ConversionPlan, shard: PlannedShard, context: ShardContext) -> None:
    """Read, encode and write the samples of a shard in order; the pool encodes some chunks ahead."""
    sizes = plan.listing.bytes[shard.rows]
    chunks = ((chunk, shard.rows[chunk]) for chunk in chunk_rows(sizes, plan.encoder.chunk_samples))
    tasks = ((chunk, partial(_encode, plan, rows, context.stop)) for chunk, rows in chunks)
    encoded = (
        ((chunk, task()) for chunk, task in tasks)
        if context.pool is None
        else bounded_map(context.pool, tasks, context.ahead)
    )
    for chunk, outcomes in encoded:
        for row, outcome in zip(shard.rows[chunk].tolist(), outcomes, strict=True):
            file.add(outcome, row)
        context.count(len(outcomes), int(sizes[chunk].sum()))


def _encode(plan: ConversionPlan, rows: Rows, stop: threading.Event) -> list[EncodedRecord | Skip]:
    outcomes: list[EncodedRecord | Skip] = []
    for outcome in plan.encoder.encode(rows):
        if stop.is_set():
            raise Cancelled
        if isinstance(outcome, Skip) and plan.options.strict and outcome.reason != BLANK:
            raise plan.encoder.strict_error(outcome)
        outcomes.append(outcome)
    return outcomes


def chunk_rows(sizes: Rows, most: int) -> Iterator[slice]:
    """Split samples of these sizes into chunks of at most ``most`` samples and about a megabyte."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + _CHUNK_BYTES, side="right"))
        end = min(start + most, max(fitting, start + 1))
        yield slice(start, end)
        start = end
