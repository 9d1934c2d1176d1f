"""The steps that a loader makes: those of one epoch after the other, or a few of any epoch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from stoker.errors import ConfigError

from ..arguments import whole_number
from ..batch import FinishedBatch
from ..prefetch import BatchProducer
from ..ranks.ranks import Ranks

__all__ = ["Epochs", "FirstSteps", "following_producers", "single_step"]


class Epochs(Protocol):
    """The epochs of a :class:`.loader.Loader`."""

    def _schedule(self, epoch: int, start: int) -> Any: ...

    def _pass_producer(self, schedule: Any, epoch: int) -> BatchProducer[FinishedBatch]: ...


class FirstSteps:
    """The first of some :class:`.epoch_iterator.Steps`: nothing is read or fetched behind them.

    Args:
        steps: The steps.
        count: Number of the first ones, from 1.
    """

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
    """Yield ``first``, of ``epoch``, and the producers of the epochs after it until the loader is dropped.

    Args:
        first: Producer of the steps that are left of ``epoch``.
        reference: The loader.
        epoch: Number of the epoch.
    """
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
    """Return the :class:`.epoch_iterator.Steps` that begin with one step of an epoch.

    Args:
        schedule: Returns the steps of an epoch from a checkpoint's position on.
        ranks: This rank, and the number of ranks.
        epoch: Number of the epoch, from 0.
        step: Number of the step in the whole epoch, from 0.
        rank: Rank that receives the batch; None is this rank.

    Raises:
        ConfigError: There is no such epoch, step or rank.
    """
    epoch, step = whole_number("epoch", epoch, 0), whole_number("step", step, 0)
    whole = schedule(epoch, 0)
    if step >= len(whole):
        raise ConfigError(f"epoch {epoch} has no step {step}: its steps are 0 to {len(whole) - 1}")
    found = schedule(epoch, whole.consumed(step))
    if rank is None:
        return found
    if whole_number("rank", rank, 0) >= ranks.world_size:
        raise ConfigError(f"there is no rank {rank}: the loader has {ranks.world_size} ranks")
    return replace(found, rank=rank)
