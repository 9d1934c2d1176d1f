"""Counts for a loader's statistics: of its cache and storage, and of each maker of batches.

A maker is this process or a worker of a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

__all__ = ["Counters", "MakerStats", "Traffic"]


@dataclass(frozen=True)
class Counters:
    """Counts since the loader was made; zeros for datasets that lie on this machine.

    Attributes:
        bytes_fetched: Bytes that came from the storage.
        retries: Requests that were tried again, by all loaders of this process.
        cache_hits: Blocks of the cache that were there when a batch was planned.
        cache_misses: Blocks that had to be fetched.
        bytes_evicted: Bytes that the cache has freed.
    """

    bytes_fetched: int = 0
    retries: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    bytes_evicted: int = 0

    def minus(self, before: Counters) -> Counters:
        """The counts since ``before``."""
        return Counters(*(getattr(self, count.name) - getattr(before, count.name) for count in fields(self)))

    def plus(self, more: Counters) -> Counters:
        """The sum of both."""
        return Counters(*(getattr(self, count.name) + getattr(more, count.name) for count in fields(self)))


@dataclass(frozen=True)
class MakerStats:
    """Batches of one maker since the loader was made.

    Attributes:
        name: "local", or the address of a worker's machine.
        batches: Batches that were received from it.
        samples: Samples of these batches on this rank.
        samples_per_second: Samples received in a second, from its first request to its latest answer.
        bytes: Bytes of their images or token ids.
        seconds: Seconds from asking for a batch to receiving it, on average.
    """

    name: str
    batches: int
    samples: int
    samples_per_second: float
    bytes: int
    seconds: float


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
