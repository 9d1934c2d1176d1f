"""Batches that another machine makes: the arguments of a loader's copy, and the Ray actor that runs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import stoker
from stoker import _native
from stoker.errors import ConfigError, StokerError
from stoker.version import __version__

from ..description import NotPortableError, content_arguments, describe_dataset, described_dataset
from ..execution.passes import FirstSteps


@dataclass(frozen=True)
class WantedBatches:
    """What decides some batches, besides the arguments of the loader."""

    epoch: int  # Number of the epoch
    position: int  # The checkpoint's position at which the first batch is the next one
    count: int  # Number of batches
    steering: Any  # What has changed since the loader was made: its exclusions, and parts of its epoch


class MadeBatches(NamedTuple):
    """What was made of some batches, before they have the form of the framework."""

    batches: list[Any]  # Those before an error, as the loader's producer collects them
    error: Exception | None  # The error of the next batch

    @property
    def nbytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)


class StartedBatches:
    """Batches that an engine makes."""

    def __init__(self, loader: Any, wanted: WantedBatches) -> None:
        steps = FirstSteps(loader.steps(wanted.epoch, wanted.position), wanted.count)
        self._producer = loader.pipeline.producer(steps, wanted.epoch)
        self._count = 0
        self._error: Exception | None = None
        try:
            while started := self._producer.start():
                self._count += started
        except Exception as error:  # the batches before it are good
            self._error = error

    def collect(self) -> MadeBatches:
        """Wait for all batches, also for those after an error, so that the engine is empty."""
        batches: list[Any] = []
        first: Exception | None = None
        for _ in range(self._count):
            try:
                made = self._producer.collect()
            except Exception as error:  # noqa: PERF203 - the batches after it must leave the engine, too
                first = first or error
            else:
                if not first:
                    batches.append(made)
        return MadeBatches(batches, first or self._error)


@dataclass(frozen=True)
class LoaderArguments:
    """The arguments of a loader's copy on another machine."""

    loader: str  # Name of the loader's class in ``stoker``
    dataset: Mapping[str, Any]  # Description of its dataset, as JSON data
    options: Mapping[str, Any]  # The other arguments
    unfinished: bool  # Whether the copy leaves colours and dtype of images to the loader

    @classmethod
    def of_loader(cls, loader: Any, *, whole: bool) -> LoaderArguments:
        """The arguments of a loader's copies, which finish images if ``whole`` is true."""
        try:
            dataset = describe_dataset(loader.dataset_argument, loader.dataset)
        except NotPortableError as error:
            raise ConfigError(f"workers cannot open the dataset: it is {error}") from None
        pipeline = loader.pipeline
        options = content_arguments(loader) | pipeline.options_elsewhere()
        return cls(pipeline.loader, dataset, options, pipeline.can_be_finished and not whole)

    def make(self, num_threads: int) -> Any:
        """Make the loader; ``num_threads`` are those of an engine."""
        options = dict(self.options)
        dataset = described_dataset(self.dataset, options)
        if "engine" in options:
            options["num_threads"] = num_threads
        loader = getattr(stoker, self.loader)(dataset, **options)
        if self.unfinished:
            loader.pipeline.leave_unfinished()
        return loader


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
        return cls(__version__, tuple(sorted(dir(_native))), loader.pipeline.identity)


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
        # Calls that are about to start batches come first, because they keep the engine busy.
        with self._engine(lambda: number == self._collected and not self._starting):
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
                self._loader.steer(*wanted.steering)
                started = StartedBatches(self._loader, wanted)
                self._started += 1
                return started, self._started - 1
        finally:
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()

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
