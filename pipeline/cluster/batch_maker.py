"""The process on another machine that makes batches: a Ray actor with a copy of the loader."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker import _native
from stoker.errors import StokerError
from stoker.version import __version__

from .started_batches import StartedBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .loader_arguments import LoaderArguments
    from .started_batches import MadeBatches, WantedBatches


@dataclass(frozen=True)
class LoaderIdentity:
    """What a loader and its copies must have in common to make the same batches."""

    version: str  # Release of Stoker
    native: tuple[str, ...]  # Names in the C++ module
    # Identity of the loader, as its states hold it: the dataset's fingerprint and all else that decides
    # batches
    identity: Mapping[str, Any]

    @classmethod
    def of_loader(cls, loader: Any) -> LoaderIdentity:
        """The identity of a loader of this process."""
        return cls(__version__, tuple(sorted(dir(_native))), loader._identity)


class BatchMaker:
    """The actor that makes batches of a loader. Several calls share the threads of one engine.

    It returns errors of Stoker, because Ray would wrap raised ones.
    """

    def __init__(self, arguments: LoaderArguments, num_threads: int) -> None:
        self._arguments = arguments
        self._num_threads = num_threads
        self._changed = threading.Condition()
        self._busy = False  # whether a thread calls the engine, which takes one at a time
        self._starting = self._started = self._collected = 0

    def start(self) -> LoaderIdentity | StokerError:
        """Make the loader, and return its identity."""
        try:
            self._loader = self._arguments.make(self._num_threads)
        except StokerError as error:
            return error
        return LoaderIdentity.of_loader(self._loader)

    def make(self, wanted: WantedBatches) -> MadeBatches | StokerError:
        """Return the collected batches, or the error for which they cannot be started."""
        try:
            started, number = self._start(wanted)
        except StokerError as error:
            return error
        with self._engine(lambda: number == self._collected and not self._waiting_to_start()):
            self._collected += 1
            batches = started.collect()
        if batches.error and not isinstance(batches.error, StokerError):
            raise batches.error
        return batches

    def _start(self, wanted: WantedBatches) -> tuple[StartedBatches, int]:
        """Start some batches; return them and the number of calls that started before."""
        self._starting += 1
        try:
            with self._engine(lambda: True):
                self._loader._steer(wanted.steering)
                started = StartedBatches(self._loader, wanted)
                self._started += 1
                return started, self._started - 1
        finally:
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()

    def _waiting_to_start(self) -> bool:
        """Whether a call is about to start batches, which come first because they keep the engine busy."""
        return self._starting > 0

    @contextmanager
    def _engine(self, ready: Callable[[], bool]) -> Iterator[None]:
        """Wait until no other thread calls the engine and ``ready`` is true."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy and ready())
            self._busy = True
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
