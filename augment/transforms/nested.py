"""Transforms that hold others: torchvision.transforms.v2.RandomApply, RandomChoice and RandomOrder; Identity.

Each of the transforms within draws its random numbers separately. It acts on the samples that it was chosen
for, and changes nothing in the others. Where it changes the size of some images only, a resize or crop to one
size must follow. RandomErasing, Normalize and ToDtype cannot be within.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from ..state import TransformState
from .base import Description, Float, Transform
from .combining import Combining


@dataclass(frozen=True)
class Identity(Transform):
    """Change nothing: a choice of :class:`RandomChoice`, or what replaces a transform that is left out."""

    def params(self, state: TransformState, u: Float) -> None:
        pass


@dataclass(frozen=True)
class RandomApply(Transform):
    """Apply all of a list of transforms with probability ``p``, or none.

    Args:
        transforms: Applied in this order.
        p: Probability.
    """

    transforms: Sequence[Transform]
    p: float = 0.5

    def __post_init__(self) -> None:
        _set_transforms(self, own_draws=1)
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        rows = np.flatnonzero(u[:, 0] < self.p)
        taken = state.take(rows)
        for part, numbers in zip(self.transforms, _numbers(self.transforms, u[rows, 1:]), strict=True):
            part.params(taken, numbers)
        state.put(rows, taken)

    def output_size(self, size: Size | None) -> Size | None:
        after = _size_after(self, self.transforms, size)
        return after if after == size or self.p == 1 else None


@dataclass(frozen=True)
class RandomChoice(Transform):
    """Apply one transform of a list; ``RandomApply(transforms, p=1)`` makes several transforms count as one.

    From transforms of batches, as in ``RandomChoice([MixUp(), CutMix()])``, a loader draws one for the whole
    batch, as in torchvision.

    Args:
        transforms: Transforms that are chosen from.
        p: A weight for each transform, whose probability is the weight over the sum of all; None for equal
            weights.
    """

    transforms: Sequence[Any]  # transforms of images, or of batches
    p: Sequence[float] | None = None

    on_batches: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _set_transforms(self, own_draws=1)
        if self.p is None:
            self.set("p", (1.0,) * len(self.transforms))
        rule = "None or a weight for each transform, from 0, not all of them 0"
        self.set_numbers("p", rule, lambda p: min(p) >= 0 and sum(p) > 0, count=len(self.transforms))

    def params(self, state: TransformState, u: Float) -> None:
        if self.warps and state.warp is None and state.size.size:
            height, width = state.size[:, 0].tolist()  # all images have one size before a warp
            for part in self.transforms:
                if not part.warps and part.output_size((height, width)) != (height, width):
                    raise ConfigError(
                        f"RandomChoice: {type(part).__name__} changes the size where another choice warps",
                        hint="Put the transform that changes the size before or after RandomChoice.",
                    )
        bounds: Float = np.cumsum(self.p or (), dtype=np.float64)
        choice = np.searchsorted(bounds / bounds[-1], u[:, 0], side="right")
        _distribute(self.transforms, state, choice, _numbers(self.transforms, u[:, 1:]))

    def output_size(self, size: Size | None) -> Size | None:
        sizes = {_size_after(self, (part,), size) for part in self.transforms}
        return sizes.pop() if len(sizes) == 1 else None


@dataclass(frozen=True)
class RandomOrder(Transform):
    """Apply all of a list of transforms in random order; each sample has its own order.

    Args:
        transforms: All orders of them are equally likely. At most one may change the size of images, and none
            where another one warps.
    """

    transforms: Sequence[Transform]

    def __post_init__(self) -> None:
        _set_transforms(self, own_draws=len(self.transforms))

    def params(self, state: TransformState, u: Float) -> None:
        own = len(self.transforms)
        numbers = _numbers(self.transforms, u[:, own:])
        for choice in np.argsort(u[:, :own], axis=1, kind="stable").T:
            _distribute(self.transforms, state, choice, numbers)

    def output_size(self, size: Size | None) -> Size | None:
        changing = [part for part in self.transforms if part.output_size(size) != size]
        if len(changing) > 1 or (changing and self.warps):
            names = " and ".join(type(part).__name__ for part in changing)
            raise ConfigError(
                f"RandomOrder: {names} would change the size at different indices of the list",
                hint="Put what changes the size before or after RandomOrder.",
            )
        return changing[0].output_size(size) if changing else size


NestedTransform = RandomApply | RandomChoice | RandomOrder


def _set_transforms(transform: NestedTransform, own_draws: int) -> None:
    """Check the transforms within, and derive from them what the transform draws and whether it warps."""
    parts: Any = transform.transforms
    is_list = isinstance(parts, Sequence) and len(parts) > 0
    good = is_list and all(isinstance(part, Transform) for part in parts)
    good = good and not any(part.late or isinstance(part, Combining) for part in parts)
    if isinstance(transform, RandomChoice) and not good and is_list:
        transform.set("on_batches", all(_is_on_batches(part) for part in parts))
        good = transform.on_batches
    rule = "a list of transforms without RandomErasing, Normalize and ToDtype, and without those that "
    transform.check("transforms", good, f"{rule}combine several images")
    transform.set("transforms", tuple(parts))
    images = [part for part in parts if isinstance(part, Transform)]
    transform.set("draws", own_draws + sum(part.draws for part in images))  # its own come first
    transform.set("warps", any(part.warps for part in images))
    transform.set("uses_boxes", any(part.uses_boxes for part in images))


def _is_on_batches(part: object) -> bool:
    return isinstance(part, Description) and not isinstance(part, Transform)


def _numbers(parts: Sequence[Transform], u: Float) -> list[Float]:
    """The random numbers of each of ``parts``, out of all random numbers, (N, draws)."""
    return np.split(u, np.cumsum([part.draws for part in parts])[:-1], axis=1)


def _distribute(
    parts: Sequence[Transform], state: TransformState, choice: npt.NDArray[np.intp], numbers: list[Float]
) -> None:
    """Apply to each sample the transform of its ``choice``, (N,), with its random ``numbers``."""
    groups = [np.flatnonzero(choice == k) for k in range(len(parts))]
    # All are taken before the first is put back, so that no transform finds the changes of another.
    taken = [state.take(rows) for rows in groups]
    for part, rows, some, own in zip(parts, groups, taken, numbers, strict=True):
        part.params(some, own[rows])
        state.put(rows, some)


def _size_after(transform: NestedTransform, parts: Iterable[Transform], size: Size | None) -> Size | None:
    """The size after ``parts``, one after the other, of images of ``size``."""
    before = size
    for part in parts:
        if part.warps and size != before:
            name = type(transform).__name__
            raise ConfigError(
                f"{name}: {type(part).__name__} warps after a transform within has changed the size",
                hint=f"Put the transform that changes the size before {name}.",
            )
        size = part.output_size(size)
    return size
