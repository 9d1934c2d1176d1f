"""Batches that the producer waits for, and that this process or workers make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .started_batches import MadeBatches, WantedBatches


@dataclass(eq=False)
class BatchRequest:
    """Consecutive batches that a producer waits for."""

    number: int  # Requests are made and answered in the order of their numbers
    wanted: WantedBatches  # What decides the batches
    # Begins to make them in this process; returns a function that waits for them
    begin: Callable[[], Callable[[], MadeBatches]]
    value: MadeBatches | None = None  # What was made
    error: BaseException | None = None  # The error, if no value was made
    done: bool = False  # Whether there is a value or an error
    # When workers were asked, by the numbers of their machines
    sent: dict[str, float] = field(default_factory=dict)

    def __lt__(self, other: BatchRequest) -> bool:
        return self.number < other.number
