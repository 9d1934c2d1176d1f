"""Parts of a training in which the datasets of a mixture have different weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import CheckpointError, ConfigError

from .orders import grouped
from .quotas import GroupDraws, QuotaSchedule, apportion_draws

Int64 = npt.NDArray[np.int64]

_CHUNK = 1 << 20
_ROUNDS = 1 << 40  # part p numbers its rounds from p times this, so no two parts share keys of random numbers


@dataclass(frozen=True)
class WeightPart:
    """A part of a training in which all datasets keep their weights.

    It consists of rounds, each with exact quotas. Each part of a schedule is one round, except for the last:
    it has no end, and repeats rounds that are as long as an epoch.
    """

    begin: int  # First draw, counted over all epochs
    quotas: tuple[int, ...]  # Draws of each dataset in a round

    @property
    def length(self) -> int:
        """Draws of a round."""
        return sum(self.quotas)


@dataclass(frozen=True)
class MovingWeights:
    """The parts of a training, the first from draw 0 on; the last one has no end.

    The draws of a dataset go on through its samples from part to part, so no sample is drawn again before all
    others of its dataset have been.
    """

    parts: tuple[WeightPart, ...]  # The parts
    # If False, a round that is a whole epoch is drawn dataset after dataset, see
    # :class:`~stoker.pipeline.order.orders.QuotaSchedule`
    spread: bool = True

    def assign(self, quota_schedule: QuotaSchedule, epoch: int, draws: Int64) -> GroupDraws:
        """Groups of ``draws``, (M,) int64, of ``epoch``; ``quota_schedule`` has the sizes and the seed."""
        drawn = GroupDraws(*(np.empty_like(draws) for _ in range(3)))
        n, first = quota_schedule.n, epoch * quota_schedule.n
        before = [0] * len(quota_schedule.sizes)  # Python's integers, as epochs have no bound
        for number, part in enumerate(self.parts):
            end = self._end(number)
            at = np.flatnonzero((draws >= part.begin - first) & (end is None or draws < end - first))
            skipped, offset = divmod(first - part.begin, part.length)
            is_epoch = offset == 0 and part.length == n and (end is None or first + n <= end)
            schedule = self._round(number, quota_schedule, spread=self.spread or not is_epoch)
            rounds, in_rounds = np.divmod(offset + draws[at], part.length)
            for one, of_round in grouped(rounds):
                done = skipped + one
                groups, earlier = schedule.groups(number * _ROUNDS + done, in_rounds[of_round])
                counted = [b + done * quota for b, quota in zip(before, part.quotas, strict=True)]
                located = quota_schedule.locate_in_cycles(counted, groups, earlier)
                for values, found in zip(drawn, located, strict=True):
                    values[at[of_round]] = found
            if end is not None:
                counts = self._counts(number, end, quota_schedule)
                before = [b + count for b, count in zip(before, counts, strict=True)]
        return drawn

    def _end(self, number: int) -> int | None:
        """The draw that ends a part; None for the last one."""
        return self.parts[number + 1].begin if number + 1 < len(self.parts) else None

    def _round(self, number: int, quota_schedule: QuotaSchedule, *, spread: bool = True) -> QuotaSchedule:
        quotas = np.array(self.parts[number].quotas, np.int64)
        return replace(quota_schedule, quotas=quotas, spread=spread)

    def _counts(self, number: int, end: int, quota_schedule: QuotaSchedule) -> list[int]:
        """Draws of each group in a part that ends before the draw ``end``."""
        part, last = self.parts[number], self._round(number, quota_schedule)
        rounds, rest = divmod(end - part.begin, part.length)
        counts = [rounds * quota for quota in part.quotas]
        for first in range(0, rest, _CHUNK):
            group, _ = last.groups(number * _ROUNDS + rounds, np.arange(first, min(rest, first + _CHUNK)))
            drawn = np.bincount(group, minlength=len(counts)).tolist()
            counts = [a + b for a, b in zip(counts, drawn, strict=True)]
        return counts

    def then(self, point: int, later: MovingWeights, quota_schedule: QuotaSchedule) -> MovingWeights:
        """These parts to the end of the block of draw ``point``, and from there on those of ``later``."""
        # Weights may change only at the end of a block. Within it draws are in random order, so the drawn
        # samples of a dataset are not yet the first ones of its cycle.
        number = max(i for i, part in enumerate(self.parts) if part.begin <= point)
        rounds, draw = divmod(point - self.parts[number].begin, self.parts[number].length)
        rest = self._round(number, quota_schedule).block_after(number * _ROUNDS + rounds, draw) - draw
        begin = point + rest
        kept = tuple(part for part in self.parts if part.begin < begin)
        if not kept:
            return later
        if (end := self._end(number)) is not None:  # a scheduled part may end first, and ends whole
            begin = min(begin, end)
            kept = tuple(part for part in kept if part.begin < begin)
        at = max(i for i, part in enumerate(later.parts) if part.begin <= begin)
        now = WeightPart(begin, later.parts[at].quotas)
        return MovingWeights((*kept, now, *later.parts[at + 1 :]))

    def to_json(self) -> list[Any]:
        """The parts for a state."""
        return [[part.begin, list(part.quotas)] for part in self.parts]

    @classmethod
    def from_json(cls, data: Any, datasets: int) -> MovingWeights:
        """Read the parts of a state with ``datasets`` datasets; raise CheckpointError if they are wrong."""
        try:
            parts = tuple(WeightPart(begin, tuple(quotas)) for begin, quotas in data)
            begins = [part.begin for part in parts]
            good = begins[0] == 0 and begins == sorted(set(begins))
            numbers = [number for part in parts for number in (part.begin, *part.quotas)]
            good = good and all(type(number) is int and number >= 0 for number in numbers)
            good = good and all(len(part.quotas) == datasets and part.length > 0 for part in parts)
        except (TypeError, ValueError, IndexError):
            good = False
        if not good:
            raise CheckpointError(
                f"the weights of the state's mixture cannot be read: {data!r:.100}",
                hint="Pass what state_dict() returned.",
            )
        return cls(parts)


def scheduled_parts(
    weights: Sequence[float], schedule: Mapping[int, Sequence[float]], global_batch: int, n: int
) -> MovingWeights:
    """The parts of a schedule."""
    steps = list(schedule)
    if not steps or any(type(step) is not int or step < 1 for step in steps) or steps != sorted(set(steps)):
        raise ConfigError(
            f"schedule must have weights by steps, ascending from 1, found steps {steps}",
            hint="The weights that are given with the datasets apply from step 0 on.",
        )
    begins = [0, *(step * global_batch for step in steps)]
    parts = []
    for i, part_weights in enumerate([weights, *schedule.values()]):
        if len(part_weights) != len(weights):
            raise ConfigError(
                f"schedule must have a weight for each of {len(weights)} datasets, found {part_weights}"
            )
        length = begins[i + 1] - begins[i] if i + 1 < len(begins) else n
        parts.append(WeightPart(begins[i], tuple(apportion_draws(list(part_weights), length).tolist())))
    return MovingWeights(tuple(parts))
