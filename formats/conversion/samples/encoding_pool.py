"""Threads that encode the samples of a writer in chunks, and return them in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from stoker.errors import StokerError

from ...sources.listing import Skip
from ..shards.encoder import EncodedRecord
from .sample_encoder import SampleEncoder
from .values.checked_sample import CheckedSample

Outcome = EncodedRecord | Skip | StokerError

_CHUNK_SAMPLES = 32  # in one task: the overhead of a task is small, and several in flight take little memory
_CHUNK_BYTES = 1 << 20
_FILE_BYTES = 1 << 15  # taken for an image at a path, whose size is not asked for


class EncodingPool:
    """Encodes samples on threads ahead of their storing, a bounded number of chunks at a time."""

    def __init__(self, encoder: SampleEncoder, num_threads: int) -> None:
        self._encoder = encoder
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="stoker-write")
        self._ahead = num_threads + 2
        self._chunk: list[CheckedSample] = []
        self._bytes = 0
        self._in_flight: deque[Future[list[Outcome]]] = deque()

    def add(self, sample: CheckedSample) -> Iterator[Outcome]:
        """Add a sample, and return the outcomes that are due: records, skips, and errors of samples."""
        self._chunk.append(sample)
        self._bytes += _known_bytes(sample)
        if len(self._chunk) < _CHUNK_SAMPLES and self._bytes < _CHUNK_BYTES:
            return iter(())
        self._submit()
        return self._outcomes(self._ahead)

    def finish(self) -> Iterator[Outcome]:
        """Return all remaining outcomes."""
        self._submit()
        return self._outcomes(0)

    def close(self) -> None:
        """End the threads; samples in flight are lost."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self) -> None:
        if self._chunk:
            chunk, self._chunk, self._bytes = self._chunk, [], 0
            self._in_flight.append(self._pool.submit(partial(_encode, self._encoder, chunk)))

    def _outcomes(self, most: int) -> Iterator[Outcome]:
        """Yield the outcomes of finished chunks until at most ``most`` chunks are in flight."""
        while len(self._in_flight) > most:
            yield from self._in_flight.popleft().result()


def _encode(encoder: SampleEncoder, chunk: list[CheckedSample]) -> list[Outcome]:
    return [_encode_one(encoder, sample) for sample in chunk]


def _encode_one(encoder: SampleEncoder, sample: CheckedSample) -> Outcome:
    try:
        return encoder.encode(sample)
    except StokerError as error:
        return error


def _known_bytes(sample: CheckedSample) -> int:
    image = sample.image
    size = len(image) if isinstance(image, bytes) else getattr(image, "nbytes", _FILE_BYTES)
    return int(size) + sum(len(array.data) for array in sample.arrays)
