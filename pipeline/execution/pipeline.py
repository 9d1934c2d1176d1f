"""What a loader runs: a pipeline from the draws of an epoch to the framework's arrays, and its producers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

import numpy.typing as npt

from ..order.exclusions import Exclusions, Fitting, Point, fitting_of
from ..order.orders import Order
from ..order.sample_source import SampleSource
from .batch import ColumnSpec, FinishedBatch
from .passes import Steps
from .state import Begun, EpochParts
from .stats import Counters, StatsTotals


class Started(NamedTuple):
    """Batches that were started together, and an iterator that waits for each."""

    batches: int
    made: Iterator[Any]


class Producer:
    """The batches of one pass, which the prefetcher's thread starts and finishes.

    ``starts`` starts the next batches when it is advanced; ``complete`` makes a batch of what was made.
    """

    def __init__(
        self,
        starts: Iterator[Started],
        complete: Callable[[Any], FinishedBatch],
        totals: StatsTotals,
        max_in_flight: int,
    ) -> None:
        self.max_in_flight = max_in_flight
        self.complete = complete
        self._starts = starts
        self._stages = totals.worker
        self._in_flight: deque[Iterator[Any]] = deque()

    def start(self) -> int:
        """Start the next batch, or some small ones together, and return their number; 0 at the end."""
        with self._stages.stage("planning"):
            started = next(self._starts, None)
        if started is None:
            return 0
        self._in_flight.append(started.made)
        return started.batches

    def collect(self) -> Any:
        """Wait for the oldest batch that was started, for :attr:`complete` here or in another process."""
        with self._stages.stage("executing"):
            while True:
                for made in self._in_flight[0]:
                    return made
                self._in_flight.popleft()

    def finish(self) -> FinishedBatch:
        """Wait for the oldest batch, and complete it."""
        return self.complete(self.collect())


class Pipeline(ABC):
    """How the batches of a loader come to be; :class:`ImagePipeline` and :class:`TextPipeline` are the two.

    The prefetcher's thread also calls it: it begins the next pass while the consumer receives the last one.
    """

    loader: ClassVar[str]  # Name of the loader's class, in descriptions
    described: str  # The loader, for messages
    point_numbers: ClassVar[int]  # How many numbers a point of the exclusions has
    source: SampleSource  # The dataset or mixture whose samples are drawn
    identity: Mapping[str, Any]  # What decides the order and the content of batches, as JSON data
    columns: tuple[str, ...]
    largest_position: int  # Of a checkpoint
    counts_steps: bool  # Whether positions count steps of a plan for some ranks; else they count draws
    exclusions: Exclusions

    @property
    @abstractmethod
    def order(self) -> Order:
        """The order of the draws."""

    @property
    @abstractmethod
    def has_equal_epochs(self) -> bool:
        """Whether all whole epochs have the same number of batches."""

    @abstractmethod
    def steps(self, epoch: int, position: int, parts: EpochParts) -> Steps:
        """This rank's steps of an epoch from a checkpoint's ``position`` on."""

    @abstractmethod
    def producer(self, steps: Any, epoch: int) -> Producer:
        """The producer of the batches of these steps."""

    @abstractmethod
    def single_producer(self, steps: Any, epoch: int) -> AbstractContextManager[Producer]:
        """A producer of these steps that shares nothing with a running pass."""

    @abstractmethod
    def spec(self, name: str) -> ColumnSpec:
        """Dtype and shape of a column, without the batch axis."""

    @abstractmethod
    def point(self, epoch: int, position: int, parts: EpochParts) -> Point:
        """The point of the training, as exclusions count it, at a checkpoint's position."""

    @abstractmethod
    def first_draw(self, state: Mapping[str, Any]) -> int:
        """The first draw over all epochs that may have other weights after a resume from ``state``."""

    @abstractmethod
    def exclude(self, exclusions: Exclusions) -> None:
        """Draw with these exclusions from now on."""

    @abstractmethod
    def batches_to_json(self) -> dict[str, Any]:
        """What decides batches and is not part of the identity, for certificates."""

    @abstractmethod
    def options_elsewhere(self) -> dict[str, Any]:
        """Arguments with which a copy makes the same batches where its defaults may differ from here."""

    @abstractmethod
    def together(self, steps: Any, *, unfinished: bool) -> Callable[[int], int]:
        """How many batches to request together of another machine, by the first step: several if small."""

    @abstractmethod
    def counters(self) -> Counters:
        """Counts of the cache and the storage."""

    @abstractmethod
    def close(self) -> None:
        """Free threads and memory; a second call completes an interrupted one."""

    @property
    def allocate(self) -> Callable[[tuple[int, ...], str], npt.NDArray[Any]] | None:
        """Makes the arrays of images, if they need memory of some kind, such as page-locked memory."""
        return None

    @property
    def can_be_finished(self) -> bool:
        """Whether a copy can send images as uint8, in fewer bytes, for this process to finish."""
        return False

    @property
    def fitting(self) -> Fitting:
        """The rule that says which samples may replace an excluded one."""
        return fitting_of(self.order, len(self.source))

    @abstractmethod
    def check_exclusion(self) -> None:
        """Raise ConfigError if the batches cannot take replacements."""

    def rebatched(self, state: Mapping[str, Any]) -> tuple[Mapping[str, Any], Begun | None]:
        """A state with this loader's batch size, and the ranks and batch size that began its epoch."""
        return state, None

    def former_options(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """Options of this loader that a state of an earlier release needs."""
        return {}
