"""Making one shard of a plan: an independent task that can be repeated, anywhere."""

from __future__ import annotations

import json
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import DecodeError
from stoker.formats.containers import container
from stoker.formats.encode import Encoded, EncodedImage, SourceFile, encode_file
from stoker.formats.index import write_index
from stoker.formats.intake import SkippedError
from stoker.formats.listing import Skip
from stoker.formats.publish import move_durably, remove, sync, sync_folder, write_durably

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor
    from pathlib import Path

    from stoker.formats.plan import ConversionPlan, PlannedShard

__all__ = ["Cancelled", "ShardResult", "finished_shard", "shard_files", "write_shard"]

# What one task of the pool works on: large enough that handing it over costs nothing beside it, small
# enough that several in flight are little memory.
_CHUNK_SAMPLES = 32
_CHUNK_SAMPLES_TOUCHED = 8
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
        skipped: Files that were left out, in the order of the plan.
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
        DecodeError: A file would be skipped and the plan is strict.
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
        self._root = str(plan.listing.root)
        listing = plan.listing
        self._files = [
            SourceFile(key, size, (label,) if isinstance(label, int) else tuple(label))
            for key, size, label in zip(
                listing.keys.take(shard.rows).to_pylist(),
                listing.sizes[shard.rows].tolist(),
                listing.labels.take(shard.rows).to_pylist(),
                strict=True,
            )
        ]

    def run(self, path: Path, index_path: Path, pool: ThreadPoolExecutor | None, ahead: int) -> ShardResult:
        """Write the shard and its part of the index."""
        images: list[EncodedImage] = []
        written: list[int] = []
        skipped: list[Skip] = []
        with container(self._plan.options.container).Writer(path) as writer:
            for chunk, outcomes in self._outcomes(pool, ahead):
                for i, outcome in zip(chunk, outcomes, strict=True):
                    if isinstance(outcome, Skip):
                        skipped.append(outcome)
                        continue
                    image, prefix, suffix = outcome
                    writer.write(self._files[i].key.encode(), prefix, image.payload, suffix)
                    images.append(image._replace(payload=b""))
                    written.append(i)
                self._tally(len(chunk), sum(self._files[i].size for i in chunk))
            shard = writer.finish()
        columns = {
            "shard": np.full(len(written), self._shard.position),
            "record": np.arange(len(written)),
            "offset": shard.offset,
            "length": shard.length,
            "crc": shard.crc,
            "key": [self._files[i].key for i in written],
            "codec": np.array([image.codec for image in images], np.uint8),
            "height": np.array([image.height for image in images], np.int32),
            "width": np.array([image.width for image in images], np.int32),
            "orientation": np.array([image.orientation for image in images], np.uint8),
        }
        write_index(index_path, {**columns, **self._own_columns(written)})
        return ShardResult(shard.data_bytes, shard.records, shard.digest, tuple(skipped))

    def _own_columns(self, written: list[int]) -> dict[str, Any]:
        """Labels and the user's columns of the samples that were written, as Arrow arrays."""
        rows = self._shard.rows[np.array(written, np.int64)]
        listing = self._plan.listing
        return {
            name: array.take(rows) for name, array in {"label": listing.labels, **listing.columns}.items()
        }

    def _outcomes(
        self, pool: ThreadPoolExecutor | None, ahead: int
    ) -> Iterator[tuple[range, list[Encoded | Skip]]]:
        """Chunks in order, each encoded; a bounded number of them ahead."""
        most = _CHUNK_SAMPLES if self._plan.options.keeps_bytes else _CHUNK_SAMPLES_TOUCHED
        chunks = _chunks([file.size for file in self._files], most)
        if pool is None:
            for chunk in chunks:
                yield chunk, self._encode(chunk)
            return
        window: deque[tuple[range, Future[list[Encoded | Skip]]]] = deque()
        try:
            for chunk in chunks:
                window.append((chunk, pool.submit(self._encode, chunk)))
                if len(window) > ahead:
                    first, future = window.popleft()
                    yield first, future.result()
            while window:
                first, future = window.popleft()
                yield first, future.result()
        finally:
            for _, future in window:
                future.cancel()

    def _encode(self, chunk: range) -> list[Encoded | Skip]:
        outcomes: list[Encoded | Skip] = []
        plan = self._plan
        for file in self._files[chunk.start : chunk.stop]:
            if self._stop.is_set():
                raise Cancelled
            try:
                outcomes.append(encode_file(self._root, file, plan.listing.classes, plan.options))
            except SkippedError as skip:
                left_out = Skip(file.key, *skip.args)
                if plan.options.strict:
                    raise self._refusal(left_out) from skip
                outcomes.append(left_out)
        return outcomes

    def _refusal(self, skip: Skip) -> DecodeError:
        return DecodeError(
            f"{skip.reason}: {skip.detail}" if skip.detail else skip.reason,
            path=self._plan.listing.root / skip.key,
            key=skip.key,
            hint="repair or remove the file, or convert without strict to skip it",
        )


def _chunks(sizes: list[int], most: int) -> Iterator[range]:
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and (i - start >= most or total + size > _CHUNK_BYTES):
            yield range(start, i)
            start, total = i, 0
        total += size
    if start < len(sizes):
        yield range(start, len(sizes))
