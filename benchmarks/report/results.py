"""What a comparison found, as data."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Comparison", "PeerResult", "Summary", "write_json"]

_FORMAT = 1


@dataclass(frozen=True)
class Summary:
    """The middle and the spread of some measurements, in their unit."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Median, smallest and greatest of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class PeerResult:
    """One loader's part in a comparison.

    Attributes:
        name: Name that ``--against`` takes.
        images_per_second: Of each timed turn, in order.
        cpu_seconds_per_1000: Processor seconds a thousand images, of each turn, all processes together.
        peak_rss: Bytes, see ``usage.Usage``.
        import_seconds: Importing the library in a fresh interpreter.
        first_batch_seconds: From asking a new loader for its first epoch to the first batch.
        versions: Of the packages that make up the loader.
        notes: Where it departs from the work that the others do.
        missing: Why there are no figures; empty where there are.
    """

    name: str
    images_per_second: tuple[float, ...] = ()
    cpu_seconds_per_1000: tuple[float, ...] = ()
    peak_rss: int = 0
    import_seconds: float = 0.0
    first_batch_seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    missing: str = ""

    @property
    def rate(self) -> Summary:
        """Images a second over the turns."""
        return Summary.of(self.images_per_second)

    @property
    def cpu(self) -> Summary:
        """Processor seconds a thousand images over the turns."""
        return Summary.of(self.cpu_seconds_per_1000)


@dataclass(frozen=True)
class Comparison:
    """Several loaders over the same samples on the same cores, in interleaved turns.

    Attributes:
        workload: What was loaded, in words.
        machine: See ``machine.describe``.
        settings: See ``peers.base.Settings``, as a mapping.
        records: Samples in the source.
        rounds: Timed turns of each loader.
        peers: One result a loader, in the order asked for.
    """

    workload: str
    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    records: int
    rounds: int
    peers: tuple[PeerResult, ...]

    def measured(self) -> tuple[PeerResult, ...]:
        """The loaders with figures."""
        return tuple(peer for peer in self.peers if not peer.missing)

    def rate_of(self, name: str) -> float | None:
        """Median images a second of one loader; None where it has no figures."""
        return next((peer.rate.median for peer in self.measured() if peer.name == name), None)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison with its medians, ready for ``json.dumps``."""
    value = asdict(comparison)
    for entry, peer in zip(value["peers"], comparison.peers, strict=True):
        if not peer.missing:
            entry["median_images_per_second"] = peer.rate.median
            entry["median_cpu_seconds_per_1000"] = peer.cpu.median
    return {"format": _FORMAT, **value}


def write_json(comparisons: Sequence[Comparison], path: Path) -> None:
    """Write comparisons as a JSON list."""
    path.write_text(json.dumps([to_json(comparison) for comparison in comparisons], indent=2) + "\n")
