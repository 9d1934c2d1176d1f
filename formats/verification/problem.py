"""One problem that a verification finds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """One problem and its position.

    Attributes:
        message: The problem.
        shard: Name of the shard; None for a problem of the index or the manifest.
        record: Position of the record in the shard, from 0.
        key: The sample's name in its source.
    """

    message: str
    shard: str | None = None
    record: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        where = [
            f"{name} {value}" for name, value in vars(self).items() if name != "message" and value is not None
        ]
        return f"{', '.join(where)}: {self.message}" if where else self.message
