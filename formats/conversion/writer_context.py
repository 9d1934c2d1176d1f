"""The ``with`` block of a writer of images or text: its end publishes the dataset, an error abandons it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from stoker.errors import ConfigError, LockedError
from stoker.processes import OwnerProcess

W = TypeVar("W", bound="WriterContext")


class WriterContext(ABC):
    """A writer whose ``with`` block closes it, or abandons its dataset if the block raises an error."""

    _owner: OwnerProcess
    _closed = False

    @abstractmethod
    def close(self) -> object:
        """Publish the dataset."""

    @abstractmethod
    def abandon(self) -> None:
        """Leave no dataset."""

    def _check_usable(self, target: Path | str) -> None:
        """Raise an error that names the target if the writer is closed, or belongs to another process."""
        if not self._owner.is_current():
            raise LockedError(
                "this writer was made in another process, which writes into its folder",
                path=target,
                hint="make a writer in each process, each with a folder of its own",
            )
        if self._closed:
            raise ConfigError("the writer is closed", path=target, hint="make another one")

    def __enter__(self: W) -> W:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error_type is not None:
            self.abandon()
        elif not self._closed:
            self.close()
