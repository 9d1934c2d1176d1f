"""Counts for a loader's statistics: of its cache and storage, and of each maker of batches.

A maker is this process or a worker of a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields


@dataclass(frozen=True)
class Counters:
    """Counts since the loader was made; zeros for datasets that lie on this machine."""

    bytes_fetched: int = 0  # Bytes that came from the storage
    retries: int = 0  # Requests that were tried again, by all loaders of this process
    cache_hits: int = 0  # Blocks of the cache that were there when a batch was planned
    cache_misses: int = 0  # Blocks that had to be fetched
    bytes_evicted: int = 0  # Bytes that the cache has freed

    def minus(self, before: Counters) -> Counters:
        """The counts since ``before``."""
        return Counters(*(getattr(self, count.name) - getattr(before, count.name) for count in fields(self)))

    def plus(self, more: Counters) -> Counters:
        """The sum of both."""
        return Counters(*(getattr(self, count.name) + getattr(more, count.name) for count in fields(self)))


@dataclass(frozen=True)
class MakerStats:
    """Batches of one maker since the loader was made."""

    name: str  # "local", or the address of a worker's machine
    batches: int  # Batches that were received from it
    samples: int  # Samples of these batches on this rank
    samples_per_second: float  # Samples received in a second, from its first request to its latest answer
    bytes: int  # Bytes of their images or token ids
    seconds: float  # Seconds from asking for a batch to receiving it, on average


@dataclass
class _Counts:
    """Counts of one maker; ``first`` is the time of its first request, ``last`` that of its latest answer."""

    first: float
    last: float = 0.0
    batches: int = 0
    samples: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass
class Traffic:
    """Counts of all makers of one loader, and of the batches that were made a second time (``repeated``)."""

    repeated: int = 0
    _counts: dict[str, _Counts] = field(default_factory=dict)

    def add_batches(
        self, name: str, batches: int, samples: int, size: int, *, asked: float, received: float
    ) -> None:
        """Count batches of a maker, of ``size`` bytes, that were asked for and received at these seconds."""
        counts = self._counts.setdefault(name, _Counts(first=asked))
        counts.last = received
        counts.batches += batches
        counts.samples += samples
        counts.bytes += size
        counts.seconds += (received - asked) * batches

    def add_repeated(self, count: int) -> None:
        """Count batches that are made a second time."""
        self.repeated += count

    def makers(self) -> tuple[MakerStats, ...]:
        """Return the statistics of each maker."""
        return tuple(
            MakerStats(
                name=name,
                batches=counts.batches,
                samples=counts.samples,
                samples_per_second=counts.samples / max(counts.last - counts.first, 1e-9),
                bytes=counts.bytes,
                seconds=counts.seconds / counts.batches,
            )
            for name, counts in list(self._counts.items())
            if counts.batches
        )
