"""A batch that the producer waits for, and that this process or workers make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .batch_maker import WantedBatch

__all__ = ["Request"]


@dataclass(eq=False)
class Request:
    """A batch that a producer waits for.

    Attributes:
        number: Requests are made and answered in the order of their numbers.
        wanted: What decides the batch.
        begin: Begins to make it in this process; returns a function that waits for it.
        value: What was made.
        error: The error in its place.
        done: Whether there is a value or an error.
        sent: When workers were asked, by the numbers of their machines.
    """

    number: int
    wanted: WantedBatch
    begin: Callable[[], Callable[[], Any]]
    value: Any = None
    error: BaseException | None = None
    done: bool = False
    sent: dict[str, float] = field(default_factory=dict)

    def __lt__(self, other: Request) -> bool:
        return self.number < other.number
