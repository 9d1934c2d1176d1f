"""The memory that a loader of images needs."""

from __future__ import annotations

from dataclasses import dataclass

from ..shared.console import human_bytes

__all__ = ["PREFETCH", "MemoryDemand"]

PREFETCH = 4
"""Batches that a loader makes ahead by default."""

_MORE_BATCHES = 2  # the one that the loop holds, and one whose memory is used next
_OF_A_THREAD = 1 << 20
_LIBRARIES = 40 << 20  # PyArrow, and the C++ module


@dataclass(frozen=True)
class MemoryDemand:
    """The most memory that a rank needs, besides the program that trains.

    Shards and index are mapped: the operating system keeps their bytes while it has room, and they do not
    count.

    Attributes:
        batch_bytes: Bytes of a batch.
        decoder_bytes: The most that decoding an image takes.
        threads: Threads of the engine.
        prefetch: Batches that are made ahead.
    """

    batch_bytes: int
    decoder_bytes: int
    threads: int
    prefetch: int = PREFETCH

    @property
    def batches(self) -> int:
        """Bytes of the batches that are in flight, ready, and in the loop."""
        return (self.prefetch + _MORE_BATCHES) * self.batch_bytes

    @property
    def decoders(self) -> int:
        """Bytes of the decoders of all threads, each with the largest image."""
        return self.threads * (_OF_A_THREAD + self.decoder_bytes)

    @property
    def total(self) -> int:
        """Bytes of all."""
        return self.batches + self.decoders + _LIBRARIES

    @property
    def sentence(self) -> str:
        """The bytes, and what they are for."""
        return (
            f"A rank needs up to {human_bytes(self.total)} of memory: {human_bytes(self.batches)} for "
            f"{self.prefetch + _MORE_BATCHES} batches of {human_bytes(self.batch_bytes)} each, as float32, "
            f"{human_bytes(self.decoders)} for the decoders of {self.threads} "
            f"thread{'s' * (self.threads > 1)}, and {human_bytes(_LIBRARIES)} for libraries."
        )
