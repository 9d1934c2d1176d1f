"""The ``with`` block of a writer of images or text: its end publishes the dataset, an error abandons it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["WriterContext"]

W = TypeVar("W", bound="WriterContext")


class WriterContext(ABC):
    """A writer whose ``with`` block closes it, or abandons its dataset if the block raises an error."""

    _closed = False

    @abstractmethod
    def close(self) -> object:
        """Publish the dataset."""

    @abstractmethod
    def abandon(self) -> None:
        """Leave no dataset."""

    def __enter__(self: W) -> W:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abandon()
        elif not self._closed:
            self.close()
