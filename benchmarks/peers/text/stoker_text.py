"""Stoker's ``TextLoader``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import stoker
from stoker.benchmarks.peers.base import PeerSettings, PeerSource

_PREFETCH = 3  # the default
_BUCKETS = 8


class StokerText:
    """Random batches, padded to their longest sequence."""

    packages: tuple[str, ...] = ("stoker", "numpy")
    lead = _PREFETCH + 1
    buckets: int | None = None

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Open the dataset."""
        self._loader = stoker.TextLoader(
            source.dataset,
            batch_size=settings.batch_size,
            buckets=self.buckets,
            shuffle=True,
            seed=settings.seed,
            last_batch="drop",
            dtype="int64",
            prefetch=_PREFETCH,
            ranks=stoker.Ranks(0, 1),
        )
        return ("compares the checksum of every sequence",)

    def epoch(self) -> Iterator[Any]:
        """Yield the batches of one pass over the loader."""
        yield from self._loader


class StokerBuckets(StokerText):
    """Batches from eight buckets, whose lengths are those that pad least."""

    buckets = _BUCKETS
