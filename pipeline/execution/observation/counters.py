"""Counts of what a loader's cache and storage have done, for its statistics."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["Counters"]


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
        return Counters(*(getattr(self, one.name) - getattr(before, one.name) for one in fields(self)))

    def plus(self, other: Counters) -> Counters:
        """The sum of both."""
        return Counters(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))
