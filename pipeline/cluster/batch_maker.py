"""The process on another machine that makes batches: a Ray actor with a copy of the loader."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker import _native
from stoker.errors import StokerError
from stoker.version import __version__

from ..execution.epochs.epoch_steps import OnlyStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .loader_arguments import LoaderArguments

__all__ = ["BatchMaker", "Copy", "WantedBatch"]


@dataclass(frozen=True)
class WantedBatch:
    """What decides a batch, besides the arguments of the loader.

    Attributes:
        epoch: Number of the epoch.
        position: The checkpoint's position at which the batch is the next one.
        steering: What has changed since the loader was made; see :meth:`.loader.SharedLoader._steering`.
    """

    epoch: int
    position: int
    steering: Any


@dataclass(frozen=True)
class Copy:
    """What a loader, or its copy, says of itself: two whose answers are equal make the same batches.

    Attributes:
        version: Release of Stoker.
        native: Names in the C++ module.
        identity: Identity of the loader, as its states hold it: the dataset's fingerprint and all else that
            decides batches.
    """

    version: str
    native: tuple[str, ...]
    identity: Mapping[str, Any]

    @classmethod
    def of(cls, loader: Any) -> Copy:
        """What a loader of this process says."""
        return cls(__version__, tuple(sorted(dir(_native))), loader._identity)


class BatchMaker:
    """Makes any batch of a loader, several at a time on the threads of one engine.

    Errors of Stoker are returned, because Ray would wrap raised ones.

    Args:
        arguments: The loader.
        num_threads: Threads of its engine.
    """

    def __init__(self, arguments: LoaderArguments, num_threads: int) -> None:
        self._arguments = arguments
        self._num_threads = num_threads
        self._changed = threading.Condition()
        self._busy = False  # whether a thread calls the engine, which takes one at a time
        self._starting = self._started = self._collected = 0

    def start(self) -> Copy | StokerError:
        """Make the loader, and return what it says of itself."""
        try:
            self._loader = self._arguments.make(self._num_threads)
        except StokerError as error:
            return error
        return Copy.of(self._loader)

    def make(self, wanted: WantedBatch) -> Any:
        """Return what the loader's producer collects of a batch, or the error that it raises."""
        try:
            collect, number = self._start(wanted)
            with self._engine(lambda: number == self._collected and not self._waiting_to_start()):
                self._collected += 1
                return collect()
        except StokerError as error:
            return error

    def _start(self, wanted: WantedBatch) -> tuple[Callable[[], Any], int]:
        """Start a batch; return what waits for it, and its number among those that were started."""
        self._starting += 1
        try:
            with self._engine(lambda: True):
                loader = self._loader
                loader._steer(wanted.steering)
                steps = OnlyStep(loader._schedule(wanted.epoch, wanted.position))
                producer = loader._make_producer(steps, wanted.epoch)
                producer.start()
                self._started += 1
                return producer.collect, self._started - 1
        finally:
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()

    def _waiting_to_start(self) -> bool:
        """Whether a batch is to be started before others are waited for, so that the engine is never idle."""
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
