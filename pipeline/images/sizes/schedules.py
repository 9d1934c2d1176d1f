"""Schedules of sizes: the height and width of a batch's images, by its epoch or by its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.augment.description import as_tuple, is_count
from stoker.errors import ConfigError
from stoker.random import hash_words, unit_interval
from stoker.types import Size

from .aspect_buckets import AspectBuckets
from .patches.patches import Patches

Int64 = npt.NDArray[np.int64]

_HINT = "Give {0: 160, 10: 192}, sizes by the first epoch that has them, or RandomSizes(320, 608)."


class SizeSchedule(Protocol):
    """The size of the images of each batch: a pure function of seed, epoch and step."""

    @property
    def sizes(self) -> tuple[Size, ...]:
        """All sizes, height and width in pixels."""

    @property
    def every(self) -> int | None:
        """Steps in a row that have one size; None for all steps of an epoch."""

    def choose(self, seed: int, epoch: int, groups: Int64) -> Int64:
        """Indices into :attr:`sizes`, (G,), for groups of ``every`` steps, (G,) numbers in the epoch."""

    def to_json(self) -> dict[str, Any]:
        """All that decides the sizes, as a dictionary that JSON can hold."""


@dataclass(frozen=True)
class EpochSizes:
    """Sizes by epoch, as in progressive resizing."""

    sizes: tuple[Size, ...]  # Heights and widths, pixels
    epochs: tuple[int, ...]  # First epoch that has each size, ascending from 0
    every = None

    def choose(self, seed: int, epoch: int, groups: Int64) -> Int64:
        """See :class:`SizeSchedule`."""
        return np.full(len(groups), np.searchsorted(self.epochs, epoch, side="right") - 1, np.int64)

    def to_json(self) -> dict[str, Any]:
        """See :class:`SizeSchedule`."""
        return {str(epoch): list(size) for epoch, size in zip(self.epochs, self.sizes, strict=True)}


@dataclass(frozen=True)
class RandomSizes:
    """Square images whose side is drawn anew every few steps, as YOLO trains (Redmon and Farhadi, 2016).

    The side is a function of the loader's seed, the epoch and the step, so all ranks have the same one.

    Args:
        low: Least side, pixels.
        high: Largest side, pixels.
        step: Distance of two sides that follow each other, pixels; it divides ``high - low``.
        every: Steps that have one side before the next is drawn.
    """

    low: int
    high: int
    step: int = 32
    every: int = 10

    def __post_init__(self) -> None:
        for name in ("low", "high", "step", "every"):
            object.__setattr__(self, name, whole_number(f"RandomSizes: {name}", getattr(self, name), 1))
        if self.low > self.high or (self.high - self.low) % self.step:
            raise ConfigError(
                f"RandomSizes: steps of {self.step} do not lead from {self.low} to {self.high}",
                hint="Choose low <= high, and a step that divides high - low.",
            )

    @property
    def sizes(self) -> tuple[Size, ...]:
        """See :class:`SizeSchedule`."""
        return tuple((side, side) for side in range(self.low, self.high + 1, self.step))

    def choose(self, seed: int, epoch: int, groups: Int64) -> Int64:
        """See :class:`SizeSchedule`; each size is as likely as any other."""
        u = unit_interval(hash_words((seed, epoch, _SIZES), groups))
        return (u * len(self.sizes)).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        """See :class:`SizeSchedule`."""
        return {"random": asdict(self)}


Sizes = (
    Mapping[int, "int | tuple[int, int]"]
    | RandomSizes
    | AspectBuckets
    | Patches
    | Literal["padded", "ragged"]
)
"""The loader's argument ``sizes``."""

_SIZES = int.from_bytes(b"sizes", "little")
"""Word that keys the sizes of steps, apart from the orders of samples."""


def make_schedule(sizes: Sizes) -> SizeSchedule:
    """The schedule that a loader's argument ``sizes`` describes."""
    if isinstance(sizes, RandomSizes):
        return sizes
    if not isinstance(sizes, Mapping):
        raise ConfigError(
            f"sizes must be sizes by epoch, RandomSizes, AspectBuckets or Patches, found {sizes!r}",
            hint=_HINT,
        )
    epochs = sorted(whole_number("an epoch in sizes", epoch, 0) for epoch in sizes)
    if not epochs or epochs[0] != 0:
        raise ConfigError(f"sizes must say the size of epoch 0, found {dict(sizes)!r}", hint=_HINT)
    return EpochSizes(tuple(_size(sizes[epoch]) for epoch in epochs), tuple(epochs))


def _size(value: object) -> Size:
    pair = as_tuple(value, 2)
    if len(pair) != 2 or not all(map(is_count, pair)):
        raise ConfigError(
            f"a size must be a positive integer or a pair (height, width) of them, found {value!r}",
            hint=_HINT,
        )
    return int(pair[0]), int(pair[1])
