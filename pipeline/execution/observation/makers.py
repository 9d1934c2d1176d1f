"""What each maker of batches has done: this process, and the workers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MakerStats", "Traffic"]


@dataclass(frozen=True)
class MakerStats:
    """What one maker of batches has done since the loader was made.

    Attributes:
        name: "local", or the address of a worker's machine.
        batches: Batches that were received from it.
        bytes: Bytes of their images or token ids.
        seconds: Seconds from asking for a batch to receiving it, on average.
    """

    name: str
    batches: int
    bytes: int
    seconds: float


class Traffic:
    """Counts of one loader; the dispatcher adds to them."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int, float]] = {}
        self.repeated = 0

    def made(self, name: str, size: int, seconds: float) -> None:
        """Count a batch of a maker."""
        batches, total, spent = self._counts.get(name, (0, 0, 0.0))
        self._counts[name] = (batches + 1, total + size, spent + seconds)

    def made_again(self) -> None:
        """Count a batch that is made a second time."""
        self.repeated += 1

    def makers(self) -> tuple[MakerStats, ...]:
        """What each maker has done."""
        found = list(self._counts.items())
        return tuple(MakerStats(name, n, size, spent / n) for name, (n, size, spent) in found)
