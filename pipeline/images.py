"""The stage of an image loader: decide a batch, have it executed, hand it over."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import CorruptRecordError, DecodeError, ImageTooLargeError, SampleError
from stoker.pipeline.batch import Finished
from stoker.pipeline.engines.base import Result, Status, Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from stoker.formats.samples import Samples
    from stoker.pipeline.adapters import Adapter
    from stoker.pipeline.engines.base import Engine
    from stoker.pipeline.image_recipe import Recipe
    from stoker.pipeline.order import Schedule
    from stoker.pipeline.stats import Clock

__all__ = ["ImageStage"]

# Positions whose order is worked out at once: its cost is that of a NumPy call, not of a position.
_ORDER_CHUNK = 4096

_MEANING = {
    Status.READ_ERROR: (CorruptRecordError, "the payload cannot be read"),
    Status.CHECKSUM_MISMATCH: (CorruptRecordError, "the payload does not match its checksum"),
    Status.SIZE_MISMATCH: (CorruptRecordError, "the image is not the one in the index"),
    Status.NOT_DECODABLE: (DecodeError, "the image cannot be decoded"),
    Status.TRUNCATED: (DecodeError, "the image is truncated"),
    Status.TOO_LARGE: (ImageTooLargeError, "the image has more pixels than max_pixels"),
}


@dataclass(frozen=True)
class _Planned:
    """A batch that is under way.

    Attributes:
        positions: (N,) int64, in the dataset.
        mask: (N,) bool, False for padding.
        samples: Where their payloads lie; ``row`` is the row in the index.
        keys: (N,) int64, what their random numbers are keyed by.
    """

    positions: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    samples: Samples
    keys: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)


class ImageStage:
    """Starts and finishes the batches of one pass (see :class:`stoker.pipeline.prefetch.Stage`)."""

    def __init__(
        self,
        recipe: Recipe,
        schedule: Schedule,
        epoch: int,
        *,
        engine: Engine,
        adapter: Adapter,
        clock: Clock,
        read_ahead: int,
    ) -> None:
        self.under_way_limit = engine.under_way_limit
        self._recipe = recipe
        self._epoch = recipe.random_epoch(epoch)
        self._engine = engine
        self._adapter = adapter
        self._clock = clock
        self._batches = _ahead(_planned(recipe, schedule, epoch), engine, read_ahead)
        self._under_way: deque[_Planned] = deque()

    def start(self) -> bool:
        """Decide the next batch and submit it."""
        began = perf_counter()
        planned = next(self._batches, None)
        if planned is None:
            return False
        if len(planned):
            samples = planned.samples
            params = self._recipe.plan.draw(
                samples.height, samples.width, planned.keys, self._recipe.seed, self._epoch
            )
            self._engine.submit(Work(samples, params))
        self._under_way.append(planned)
        self._clock.planning += perf_counter() - began
        return True

    def finish(self) -> Finished:
        """Wait for the oldest batch and hand it over."""
        planned = self._under_way.popleft()
        began = perf_counter()
        result = self._engine.collect() if len(planned) else self._nothing()
        executed = perf_counter()
        self._clock.executing += executed - began
        bad = np.flatnonzero(result.status != Status.OK)
        kept = self._settle(planned, result, bad) if bad.size else None
        batch = self._hand_over(planned, result.images, kept)
        self._clock.handing_over += perf_counter() - executed
        if not bad.size:
            return Finished(batch)
        counted = "skipped" if self._recipe.on_error == "skip" else "replaced"
        keys = tuple(self._recipe.dataset.keys(planned.positions[bad]))
        return Finished(batch, bad_keys=keys, **{counted: bad.size})

    def _nothing(self) -> Result:
        """A batch of no samples: the last one, on a rank for which none were left."""
        shape = self._recipe.output.shape(0, self._recipe.plan.size)
        dtype = {"bfloat16": "uint16"}.get(self._recipe.output.dtype, self._recipe.output.dtype)
        return Result(np.empty(shape, dtype=dtype), np.empty(0, dtype=np.uint8))

    def _settle(self, planned: _Planned, result: Result, bad: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Which samples to hand out, (M,) int64 into the batch, where those at ``bad`` are not good."""
        good = np.flatnonzero(result.status == Status.OK)
        if self._recipe.on_error == "skip":
            return good
        if self._recipe.on_error == "raise" or not good.size:
            raise self._error(planned, result, int(bad[0]))
        chosen = np.arange(len(planned))
        # The next good sample of the batch, the first one after the last: no further draw is needed.
        chosen[bad] = good[np.searchsorted(good, bad) % good.size]
        return chosen

    def _error(self, planned: _Planned, result: Result, i: int) -> SampleError:
        kind, meaning = _MEANING[Status(int(result.status[i]))]
        said = result.reason.get(i, "")
        return self._recipe.dataset.error(
            int(planned.positions[i]),
            f"{meaning}: {said}" if said else meaning,
            kind,
            "on_error='skip' or 'replace' goes on without such samples; stoker verify lists them all.",
        )

    def _hand_over(self, planned: _Planned, images: Any, kept: npt.NDArray[np.int64] | None) -> Any:
        images = self._adapter.images(images, self._recipe.output.dtype)
        if kept is not None:
            images = self._adapter.take(images, kept)
        chosen = slice(None) if kept is None else kept
        values = [
            images if name == "image" else self._adapter.column(self._column(name, planned, chosen))
            for name in self._recipe.columns
        ]
        return self._recipe.batch(*values)

    def _column(self, name: str, planned: _Planned, chosen: slice | npt.NDArray[np.int64]) -> Any:
        if name == "key":
            return self._recipe.dataset.keys(planned.positions[chosen])
        if name == "mask":
            return planned.mask[chosen]
        if name == "row":
            return planned.samples.row[chosen]
        return self._recipe.dataset.values(name, planned.positions[chosen])


def _planned(recipe: Recipe, schedule: Schedule, epoch: int) -> Iterator[_Planned]:
    """The batches of a pass, in order."""
    first, steps = 0, 1  # the first batch is not kept waiting
    while first < len(schedule):
        parts = [schedule.positions(step) for step in range(first, min(first + steps, len(schedule)))]
        first, steps = first + steps, max(1, min(2 * steps, _ORDER_CHUNK // schedule.batch_size))
        drawn = recipe.order.rows(epoch, np.concatenate([positions for positions, _ in parts]))
        ends = np.cumsum([len(positions) for positions, _ in parts])
        for (places, mask), positions in zip(parts, np.split(drawn, ends[:-1]), strict=True):
            samples = recipe.dataset.samples(positions)
            yield _Planned(positions, mask, samples, recipe.random_keys(epoch, places, samples.row))


def _ahead(batches: Iterator[_Planned], engine: Engine, distance: int) -> Iterator[_Planned]:
    """The same batches, their bytes asked for up to ``distance`` batches before.

    The first batch is not kept waiting: the distance grows by two with each batch that is started.
    """
    waiting: deque[_Planned] = deque()
    reach = 0
    for planned in batches:
        if distance and len(planned):
            with contextlib.suppress(ValueError):  # a place outside its file is told when it is read
                engine.read_ahead(planned.samples)
        waiting.append(planned)
        if len(waiting) > reach:
            reach = min(distance, reach + 2)
            yield waiting.popleft()
    yield from waiting
