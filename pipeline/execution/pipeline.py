"""What a loader runs: a pipeline from the draws of an epoch to the framework's arrays, and its batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy.typing as npt

from stoker.arguments import list_of_names
from stoker.errors import ConfigError

from ..order.orders import Order
from ..order.sampling import SampleSource
from ..order.schedule import Schedule
from .state import EpochParts, OldRanks
from .stats import Counters, StatsTotals

if TYPE_CHECKING:
    from ..order.exclusions import Exclusions, Fitting, Point


@dataclass(frozen=True)
class ColumnSpec:
    """Form of one column of a batch."""

    name: str  # The column
    dtype: str  # NumPy's name of the element type, "bfloat16", or "str"
    # Shape without the first axis, the batch; None for a size that differs between batches
    shape: tuple[int | None, ...]
    # The column is a list with one array of this shape for each sample; first sizes differ
    ragged: bool = False
    # Views of each sample, an axis before the batch, or a tuple of as many lists for a ragged column
    views: int | None = None


class FinishedBatch(NamedTuple):
    """A batch as its producer returns it, with the counts that are added up when the consumer receives it."""

    batch: Any  # The named tuple of columns that the consumer receives
    samples: int  # Number of samples in it
    skipped: int = 0  # Number of bad samples that were left out
    replaced: int = 0  # Number of bad samples that were replaced
    bad_keys: tuple[str, ...] = ()  # Keys of the bad samples
    # Function to call in the consumer's thread before it uses the batch; None for none
    ready: Callable[[], None] | None = None


class _Batch(tuple[Any, ...]):
    """What a batch has beside its named tuple: that of a mapping, and ways to be made again."""

    __slots__ = ()

    _fields: ClassVar[tuple[str, ...]]

    def __new__(cls, *values: Any, **named: Any) -> Any:
        """A batch of these columns, given one by one, by name, or as one mapping or iterable of all."""
        # Trainers move a batch to a device with type(batch)(...), and give it what its type would take.
        if len(values) == 1 and not named:
            (only,) = values
            if isinstance(only, Mapping):
                values, named = (), dict(only)
            elif len(cls._fields) > 1 or isinstance(only, Iterator):
                values = tuple(only)
        return super().__new__(cls, *values, **named)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            if at not in self._fields:
                raise KeyError(at)
            at = self._fields.index(at)
        return super().__getitem__(at)

    def __contains__(self, value: object) -> bool:
        return value in self._fields if isinstance(value, str) else super().__contains__(value)

    def __reduce__(self) -> Any:
        """Pickle finds a class by its module and name. A batch's class has none, so it is made again."""
        return _batch, (self._fields, tuple(self))

    def keys(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        return self._fields

    def values(self) -> tuple[Any, ...]:
        """The columns."""
        return tuple(self)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and columns."""
        return zip(self._fields, self.values(), strict=True)

    def get(self, name: str, default: Any = None) -> Any:
        """The column of this name, or ``default``."""
        return self[name] if name in self._fields else default


@lru_cache(maxsize=64)
def batch_type(columns: tuple[str, ...]) -> Callable[..., Any]:
    """Return the type of batches of these columns, a named tuple that is also read as a mapping.

    ``images, labels = batch``, ``batch.image``, ``batch["image"]``, ``dict(batch)`` and ``**batch`` work.
    Batches can be pickled, for queues between processes.
    """
    try:
        base: Any = namedtuple("_named_tuple", columns)  # type: ignore[misc]  # any columns
    except ValueError as error:
        raise ConfigError(f"columns={columns!r}: {error}") from error
    # A column named as one of the methods above keeps its attribute.
    own = {name: getattr(base, name) for name in columns if name in vars(_Batch)}
    return type("Batch", (_Batch, base), {"__slots__": (), **own})


def wanted_columns(columns: Sequence[str] | None, usual: Sequence[str], last_batch: str) -> tuple[str, ...]:
    """Names of the columns that a loader's argument lists, or of the usual ones; with the mask of padding."""
    names = list_of_names("columns", usual if columns is None else columns)
    if last_batch == "pad" and "mask" not in names:
        names = (*names, "mask")
    if not names:
        raise ConfigError("columns must name at least one column")
    return names


def _batch(columns: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return batch_type(columns)._make(values)  # type: ignore[attr-defined]  # a named tuple's


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

    @property
    @abstractmethod
    def order(self) -> Order:
        """The order of the draws."""

    @property
    @abstractmethod
    def has_equal_epochs(self) -> bool:
        """Whether all whole epochs have the same number of batches."""

    @abstractmethod
    def steps(self, epoch: int, position: int, parts: EpochParts) -> Schedule:
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
    def exclude(self, exclusions: Exclusions | None) -> None:
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
        from ..order.exclusions import fitting_of

        return fitting_of(self.order, len(self.source))

    @abstractmethod
    def check_exclusion(self) -> None:
        """Raise ConfigError if the batches cannot take replacements."""

    def rebatched(self, state: Mapping[str, Any]) -> tuple[Mapping[str, Any], OldRanks | None]:
        """A state with this loader's batch size, and the ranks and batch size that began its epoch."""
        return state, None

    def former_options(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """Options of this loader that a state of an earlier release needs."""
        return {}
