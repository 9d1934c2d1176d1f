"""Batches that the producer waits for, and that this process or workers make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .started_batches import MadeBatches, WantedBatches

__all__ = ["BatchRequest"]


@dataclass(eq=False)
class BatchRequest:
    """Consecutive batches that a producer waits for.

    Attributes:
        number: Requests are made and answered in the order of their numbers.
        wanted: What decides the batches.
        begin: Begins to make them in this process; returns a function that waits for them.
        value: What was made.
        error: The error, if no value was made.
        done: Whether there is a value or an error.
        sent: When workers were asked, by the numbers of their machines.
    """

    number: int
    wanted: WantedBatches
    begin: Callable[[], Callable[[], MadeBatches]]
    value: MadeBatches | None = None
    error: BaseException | None = None
    done: bool = False
    sent: dict[str, float] = field(default_factory=dict)

    def __lt__(self, other: BatchRequest) -> bool:
        return self.number < other.number
