"""Batches of consecutive steps that one engine makes together, in this process or on another machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..execution.epochs.epoch_steps import FirstSteps


@dataclass(frozen=True)
class WantedBatches:
    """What decides some batches, besides the arguments of the loader."""

    epoch: int  # Number of the epoch
    position: int  # The checkpoint's position at which the first batch is the next one
    count: int  # Number of batches
    steering: Any  # What has changed since the loader was made; see :meth:`.loader.SharedLoader._steering`


class MadeBatches(NamedTuple):
    """What was made of some batches, before they have the form of the framework."""

    batches: list[Any]  # Those before an error, as the loader's producer collects them
    error: Exception | None  # The error of the next batch

    @property
    def samples(self) -> int:
        """Number of samples."""
        return sum(batch.samples for batch in self.batches)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(batch.nbytes for batch in self.batches)


class StartedBatches:
    """Batches that an engine makes."""

    def __init__(self, loader: Any, wanted: WantedBatches) -> None:
        steps = FirstSteps(loader._schedule(wanted.epoch, wanted.position), wanted.count)
        self._producer = loader._make_producer(steps, wanted.epoch)
        self._count = 0
        self._error: Exception | None = None
        try:
            while started := self._producer.start():
                self._count += started
        except Exception as error:  # the batches before it are good
            self._error = error

    def collect(self) -> MadeBatches:
        """Wait for all batches, also for those after an error, so that the engine is empty."""
        outcomes = [self._collected() for _ in range(self._count)]
        errors = (i for i, outcome in enumerate(outcomes) if isinstance(outcome, Exception))
        good = next(errors, len(outcomes))
        return MadeBatches(outcomes[:good], outcomes[good] if good < len(outcomes) else self._error)

    def _collected(self) -> Any:
        """The oldest batch, or its error."""
        try:
            return self._producer.collect()
        except Exception as error:  # the batches after it must leave the engine, too
            return error
