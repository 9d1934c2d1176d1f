"""Results of a comparison, as data."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

_FORMAT = 1


@dataclass(frozen=True)
class Spread:
    """Median and range of measurements, in their unit."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return median, minimum and maximum of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class PeerResult:
    """Results of one loader in a comparison."""

    name: str  # Name of the loader for ``--against``
    images_per_second: tuple[float, ...] = ()  # Rate of each timed turn, in order
    # CPU seconds per 1,000 images in each turn, of all processes of the loader
    cpu_seconds_per_1000: tuple[float, ...] = ()
    peak_rss: int = 0  # Bytes, see ``usage.Usage``
    import_seconds: float = 0.0  # Time of importing the library in a new interpreter
    # Time from the request for the first epoch of a new loader to the first batch
    first_batch_seconds: float = 0.0
    # Time to write the samples in a format of the loader; 0 where it reads those of Stoker
    write_seconds: float = 0.0
    write_cpu_seconds: float = 0.0  # CPU seconds of writing them, of all processes
    written_bytes: int = 0  # Bytes of these files
    versions: Mapping[str, str] = field(default_factory=dict)  # Versions of the packages of the loader
    notes: tuple[str, ...] = ()  # Differences between the work of this loader and that of the others
    missing: str = ""  # Reason why there are no figures; empty where there are

    @property
    def rate(self) -> Spread:
        """Images per second over the turns."""
        return Spread.of(self.images_per_second)

    @property
    def cpu(self) -> Spread:
        """CPU seconds per 1,000 images over the turns."""
        return Spread.of(self.cpu_seconds_per_1000)


@dataclass(frozen=True)
class Comparison:
    """Results of several loaders on the same samples and the same cores, in interleaved turns."""

    workload: str  # Title of the samples
    machine: Mapping[str, Any]  # Result of ``machine.describe``
    settings: Mapping[str, Any]  # ``peers.base.PeerSettings`` as a mapping
    records: int  # Number of samples in the source
    rounds: int  # Number of timed turns of each loader
    peers: tuple[PeerResult, ...]  # A result for each loader, in the order of the request

    def measured(self) -> tuple[PeerResult, ...]:
        """Return the results with figures."""
        return tuple(peer for peer in self.peers if not peer.missing)

    def rate_of(self, name: str) -> float | None:
        """Return the median images per second of one loader; None where it has no figures."""
        return next((peer.rate.median for peer in self.measured() if peer.name == name), None)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison and its medians as values that JSON has."""
    value = asdict(comparison)
    for entry, peer in zip(value["peers"], comparison.peers, strict=True):
        if not peer.missing:
            entry["median_images_per_second"] = peer.rate.median
            entry["median_cpu_seconds_per_1000"] = peer.cpu.median
    return {"format": _FORMAT, **value}
