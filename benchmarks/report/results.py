"""Results of a comparison, as data."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Comparison", "PeerResult", "Spread", "to_json"]

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
    """Results of one loader in a comparison.

    Attributes:
        name: Name of the loader for ``--against``.
        images_per_second: Rate of each timed turn, in order.
        cpu_seconds_per_1000: CPU seconds per 1,000 images in each turn, of all processes of the loader.
        peak_rss: Bytes, see ``usage.Usage``.
        import_seconds: Time of importing the library in a new interpreter.
        first_batch_seconds: Time from the request for the first epoch of a new loader to the first batch.
        write_seconds: Time to write the samples in a format of the loader; 0 where it reads those of Stoker.
        write_cpu_seconds: CPU seconds of writing them, of all processes.
        written_bytes: Bytes of these files.
        versions: Versions of the packages of the loader.
        notes: Differences between the work of this loader and that of the others.
        missing: Reason why there are no figures; empty where there are.
    """

    name: str
    images_per_second: tuple[float, ...] = ()
    cpu_seconds_per_1000: tuple[float, ...] = ()
    peak_rss: int = 0
    import_seconds: float = 0.0
    first_batch_seconds: float = 0.0
    write_seconds: float = 0.0
    write_cpu_seconds: float = 0.0
    written_bytes: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    missing: str = ""

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
    """Results of several loaders on the same samples and the same cores, in interleaved turns.

    Attributes:
        workload: Title of the samples.
        machine: Result of ``machine.describe``.
        settings: ``peers.base.PeerSettings`` as a mapping.
        records: Number of samples in the source.
        rounds: Number of timed turns of each loader.
        peers: A result for each loader, in the order of the request.
    """

    workload: str
    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    records: int
    rounds: int
    peers: tuple[PeerResult, ...]

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
