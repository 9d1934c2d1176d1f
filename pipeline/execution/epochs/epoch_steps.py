"""The steps that a loader makes: those of one epoch after the other, or a few of any epoch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from stoker.arguments import whole_number
from stoker.errors import ConfigError

from ..batch import FinishedBatch
from ..prefetch import BatchProducer
from ..ranks.ranks import Ranks


class Epochs(Protocol):
    """The epochs of a :class:`.loader.Loader`."""

    def _schedule(self, epoch: int, start: int) -> Any: ...

    def _pass_producer(self, schedule: Any, epoch: int) -> BatchProducer[FinishedBatch]: ...


class FirstSteps:
    """The first ``count`` of some :class:`.epoch_iterator.Steps`, so that nothing is read behind them."""

    def __init__(self, steps: Any, count: int) -> None:
        self._steps = steps
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._steps, name)

    def together(self, step: int, tokens: int) -> range:
        """See ``TextSchedule``."""
        return range(step, min(self._steps.together(step, tokens).stop, self._count))


def following_producers(
    first: BatchProducer[FinishedBatch], reference: weakref.ref[Epochs], epoch: int
) -> Iterator[BatchProducer[FinishedBatch]]:
    """Yield ``first``, the producer of ``epoch``, and those of later epochs until the loader is dropped."""
    producer = first
    del first  # the plan of its epoch would stay with it
    yield producer
    while (loader := reference()) is not None:
        epoch += 1
        producer = loader._pass_producer(loader._schedule(epoch, start=0), epoch)
        del loader
        yield producer


def single_step(
    schedule: Callable[[int, int], Any], ranks: Ranks, epoch: int, step: int, rank: int | None
) -> Any:
    """Return the steps of an epoch from ``step`` on; see :meth:`.loader.Loader.batch`.

    ``schedule`` returns the :class:`.epoch_iterator.Steps` of an epoch from a checkpoint's position on.
    """
    epoch, step = whole_number("epoch", epoch, 0), whole_number("step", step, 0)
    whole = schedule(epoch, 0)
    if step >= len(whole):
        raise ConfigError(f"epoch {epoch} has no step {step}: its steps are 0 to {len(whole) - 1}")
    steps = schedule(epoch, whole.consumed(step))
    if rank is None:
        return steps
    if whole_number("rank", rank, 0) >= ranks.world_size:
        raise ConfigError(f"there is no rank {rank}: the loader has {ranks.world_size} ranks")
    return replace(steps, rank=rank)
