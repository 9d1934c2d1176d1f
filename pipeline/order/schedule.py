"""The draws that each rank receives at each step of an epoch, in the order of the draws or by a plan."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, get_args
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of
from stoker.processes import PerProcess, cached_property
from stoker.types import Size

if TYPE_CHECKING:
    from stoker.bucketing import Batch, BatchPlan, PackingPlan

LastBatch = Literal["drop", "pad", "partial"]
Int64 = npt.NDArray[np.int64]
K = TypeVar("K")
V = TypeVar("V")


class EpochCache(Generic[K, V]):
    """The values that were made last, ``kept`` of them, and others for as long as a pass uses them.

    At the end of a pass two are in use, because the worker thread makes one for the next epoch.
    """

    def __init__(self, kept: int = 1) -> None:
        self._values: WeakValueDictionary[K, V] = WeakValueDictionary()
        self._kept: deque[V] = deque(maxlen=kept)
        self._lock = PerProcess(threading.RLock)  # making a value may ask for another one

    def get(self, key: K, make: Callable[[K], V]) -> V:
        """Return the value of ``key``; ``make(key)`` makes it if it is not here."""
        with self._lock.get():
            value = self._values.get(key)
            if value is None:
                if len(self._kept) == self._kept.maxlen:
                    self._kept.popleft()  # frees its memory before the next one is made
                value = self._values[key] = make(key)
                self._kept.append(value)
            return value


@dataclass(frozen=True)
class OrderedSteps:
    """Which draws of an epoch a rank receives at each step.

    Step s has the global batch of draws ``[start + s * G, start + (s + 1) * G)`` with
    ``G = batch_size * world_size``; rank r receives every ``world_size``-th of them, from the r-th on. So
    the global batch does not depend on the number of ranks that share it, every rank has the same number of
    steps, and any number of ranks can go on with an epoch at any draw.
    """

    n: int  # Draws in an epoch
    batch_size: int  # Samples in a batch of one rank
    rank: int = 0  # This rank
    world_size: int = 1  # Number of ranks
    # What happens to a short last global batch: "drop" leaves it out, "pad" fills it with masked draws from
    # the start of the epoch, and "partial" hands it out as it is (a rank may receive nothing if it has fewer
    # draws than there are ranks)
    last_batch: LastBatch = "partial"
    start: int = 0  # First draw of the first step

    def __post_init__(self) -> None:
        one_of("last_batch", self.last_batch, get_args(LastBatch))

    @property
    def global_batch(self) -> int:
        """Draws in a step over all ranks."""
        return self.batch_size * self.world_size

    def __len__(self) -> int:
        left = self.n - self.start
        return left // self.global_batch if self.last_batch == "drop" else -(-left // self.global_batch)

    @property
    def last_is_empty(self) -> bool:
        """Whether this rank receives no sample at the last step, and another rank does."""
        return self.last_batch == "partial" and 0 < (self.n - self.start) % self.global_batch <= self.rank

    def size(self, step: int) -> Size | None:
        """Height and width of the images of a step, pixels; None if the transforms decide it."""
        return None

    def groups(self, step: int) -> Int64 | None:
        """First of this rank's draws in each packed row of a step, and their number; None without packing."""
        return None

    def draws(self, step: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """Draws of this rank at ``step``, (M,) int64, and whether each is real and not padding, (M,) bool."""
        return self.dealt(self.start + step * self.global_batch, self.batch_size)

    def dealt(self, first: int, count: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """This rank's ``count`` draws of a step whose first draw is ``first``; see :meth:`draws`."""
        draws = first + self.rank + self.world_size * np.arange(count, dtype=np.int64)
        real = draws < self.n
        if self.last_batch == "pad":
            return draws % self.n, real
        return draws[real], np.ones(int(real.sum()), dtype=np.bool_)

    def shown_at(self, steps: Int64, draws: Int64, mask: npt.NDArray[np.bool_]) -> Int64:
        """The points of the epoch at which draws are shown, (M,) int64, as exclusions count them."""
        # steps (M,) int64, draws (M,) int64, mask (M,) bool
        return np.where(mask, draws, self.n - 1)  # padding repeats draws at the end of the epoch

    def consumed(self, steps: int) -> int:
        """Draws of the epoch that the ranks have received after ``steps`` steps."""
        return min(self.n, self.start + steps * self.global_batch)


@dataclass(frozen=True, eq=False)
class PlannedSteps:
    """The steps of an epoch on one rank by a plan of its batches; the first ``start`` steps are done.

    Its draws are rows of the plan, or with ``packing`` the samples that share the packed rows of the plan.
    """

    plan: BatchPlan
    rank: int = 0
    start: int = 0  # Steps of the plan that are done; ``consumed`` counts steps
    n: int = 0  # Draws in an epoch
    packing: PackingPlan | None = None  # The samples of each row of the plan; None if rows are draws
    sized: bool = False  # Whether the plan's lengths are the height and width of the images
    last_is_empty = False  # All ranks have batches of one size

    def __len__(self) -> int:
        return max(0, len(self.plan) - self.start)

    @property
    def world_size(self) -> int:
        return self.plan.world_size

    @cached_property
    def batch_size(self) -> int:
        """Rows of the largest batch of a rank."""
        return max(1, int(self.plan.sizes.max(initial=0)) // self.plan.world_size)

    def batch(self, step: int) -> Batch:
        """This rank's rows of the plan at a step, and their padded shape."""
        return self.plan.batch(self.start + step, self.rank)

    def mask(self, step: int) -> npt.NDArray[np.bool_]:
        """Which of this rank's rows at a step are real, and not repeated, (n,) bool."""
        return self.plan.mask(self.start + step, self.rank)

    def number(self, step: int) -> int:
        """Number of a step in the epoch, including those before a change of ranks."""
        return sum(done for _, done in self.plan.history) + self.start + step

    def size(self, step: int) -> Size | None:
        """Height and width of the images of a step, pixels; None if the images of a batch decide it."""
        if not self.sized:
            return None
        height, width = self.plan.lengths[self.start + step].tolist()
        return height, width

    def draws(self, step: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """Draws of this rank at ``step``, (M,) int64, row after row, and whether each is real, (M,) bool."""
        rows, mask, packing = self.batch(step).rows, self.mask(step), self.packing
        if packing is None:
            return rows, mask
        pieces = [packing.rows[packing.pieces(row)] for row in rows.tolist()]
        return np.concatenate(pieces).astype(np.int64), np.repeat(mask, [len(one) for one in pieces])

    def groups(self, step: int) -> Int64 | None:
        """First of this rank's draws in each packed row of a step, and their number; None without packing."""
        if self.packing is None:
            return None
        rows, offsets = self.batch(step).rows, self.packing.offsets
        return np.concatenate(([0], np.cumsum(offsets[rows + 1] - offsets[rows])))

    def shown_at(self, steps: Int64, draws: Int64, mask: npt.NDArray[np.bool_]) -> Int64:
        """The points of the epoch at which draws are shown, (M,) int64: the numbers of their steps."""
        return self.number(0) + steps

    def consumed(self, steps: int) -> int:
        """Steps of the plan that are done after ``steps`` more."""
        return self.start + steps


@dataclass(frozen=True, eq=False)
class ListedSteps:
    """Steps of one rank whose draws somebody else has chosen, such as a sampler of torch."""

    listed: Sequence[Int64]  # (M,) int64 draws of each step
    rank = start = 0
    world_size = 1
    last_is_empty = False

    def __len__(self) -> int:
        return len(self.listed)

    @cached_property
    def n(self) -> int:
        """Draws of all steps."""
        return sum(map(len, self.listed))

    @cached_property
    def batch_size(self) -> int:
        """Draws of the largest step."""
        return max(1, *map(len, self.listed)) if self.listed else 1

    @property
    def global_batch(self) -> int:
        return self.batch_size

    def size(self, step: int) -> Size | None:
        """None, as the transforms decide the size of images."""
        return None

    def groups(self, step: int) -> Int64 | None:
        """None, as there is no packing."""
        return None

    def draws(self, step: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """Draws at ``step``, (M,) int64, which are all real."""
        return self.listed[step], np.ones(len(self.listed[step]), np.bool_)

    def shown_at(self, steps: Int64, draws: Int64, mask: npt.NDArray[np.bool_]) -> Int64:
        return draws

    def consumed(self, steps: int) -> int:
        """Steps that are done after ``steps``."""
        return steps


Schedule = OrderedSteps | PlannedSteps | ListedSteps
"""The steps of an epoch on one rank."""
