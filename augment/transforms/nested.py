"""Transforms that hold others: torchvision.transforms.v2.RandomApply, RandomChoice and RandomOrder; Identity.

Each of the transforms within draws its random numbers separately. It acts on the samples that it was chosen
for, and changes nothing in the others. Where it changes the size of some images only, a resize or crop to one
size must follow. RandomErasing, Normalize and ToDtype cannot be within.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from ..description import Description, as_tuple, is_finite
from ..state import TransformState
from .base import Transform

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Identity(Transform):
    """Change nothing: a choice of :class:`RandomChoice`, or what replaces a transform that is left out."""

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""


@dataclass(frozen=True)
class NestedTransform(Transform):
    """A transform of a list of transforms.

    Attributes:
        transforms: The list.
    """

    transforms: Sequence[Any]

    def __post_init__(self) -> None:
        value = self.transforms
        good = isinstance(value, Sequence) and all(isinstance(part, Transform) for part in value)
        good = good and len(value) > 0 and not any(part.late or part.combines for part in value)
        good = good or self.on_batches
        rule = "a list of transforms without RandomErasing, Normalize and ToDtype, and without those that "
        self.check("transforms", good, f"{rule}combine several images")
        self.set("transforms", tuple(value))
        parts = () if self.on_batches else self.transforms
        self.set("draws", self._own_draws + sum(part.draws for part in parts))  # its own come first
        self.set("warps", any(part.warps for part in parts))

    @property
    def on_batches(self) -> bool:
        """Whether the transforms are those of batches, which only a RandomChoice may hold."""
        return False

    @property
    def uses_boxes(self) -> bool:
        return any(part.uses_boxes for part in self.transforms)

    @property
    def _own_draws(self) -> int:
        """How many random numbers of each sample it needs itself."""
        return 1

    @property
    def _parts(self) -> Sequence[Any]:
        """The transforms within, where they are those of images."""
        return self.transforms

    def _numbers(self, u: Float) -> list[Float]:
        """The random numbers of each transform within, out of (N, draws)."""
        ends = np.cumsum([part.draws for part in self.transforms])
        return np.split(u[:, self._own_draws :], ends[:-1], axis=1)

    def _distribute(self, state: TransformState, choice: npt.NDArray[np.intp], numbers: list[Float]) -> None:
        """Apply to each sample the transform of its ``choice``, (N,), with its random ``numbers``."""
        groups = [np.flatnonzero(choice == k) for k in range(len(self.transforms))]
        # All are taken before the first is put back, so that no transform finds the changes of another.
        taken = [state.take(rows) for rows in groups]
        for part, rows, some, own in zip(self._parts, groups, taken, numbers, strict=True):
            part.params(some, own[rows])
            state.put(rows, some)

    def _size_after(self, parts: Iterable[Transform], size: Size | None) -> Size | None:
        """The size after ``parts``, one after the other, of images of ``size``."""
        before = size
        for part in parts:
            if part.warps and size != before:
                name = type(self).__name__
                raise ConfigError(
                    f"{name}: {type(part).__name__} warps after a transform within has changed the size",
                    hint=f"Put the transform that changes the size before {name}.",
                )
            size = part.output_size(size)
        return size


@dataclass(frozen=True)
class RandomApply(NestedTransform):
    """Apply all of a list of transforms with probability ``p``, or none.

    Args:
        transforms: Applied in this order.
        p: Probability.
    """

    transforms: Sequence[Transform]
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        rows = np.flatnonzero(u[:, 0] < self.p)
        taken = state.take(rows)
        for part, numbers in zip(self.transforms, self._numbers(u[rows]), strict=True):
            part.params(taken, numbers)
        state.put(rows, taken)

    def output_size(self, size: Size | None) -> Size | None:
        after = self._size_after(self.transforms, size)
        return after if after == size or self.p == 1 else None


@dataclass(frozen=True)
class RandomChoice(NestedTransform):
    """Apply one transform of a list; ``RandomApply(transforms, p=1)`` makes several transforms count as one.

    From transforms of batches, as in ``RandomChoice([MixUp(), CutMix()])``, a loader draws one for the whole
    batch, as in torchvision.

    Args:
        transforms: Transforms that are chosen from.
        p: A weight for each transform, whose probability is the weight over the sum of all; None for equal
            weights.
    """

    transforms: Sequence[Description]
    p: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = (1.0,) * len(self.transforms) if self.p is None else as_tuple(self.p, 1)
        good = len(weights) == len(self.transforms)
        good = good and all(is_finite(weight) and weight >= 0 for weight in weights) and sum(weights) > 0
        self.check("p", good, "None or a weight for each transform, from 0, not all of them 0")
        self.set("p", tuple(map(float, weights)))

    @property
    def on_batches(self) -> bool:
        """Whether it chooses among transforms of batches, for a loader to apply, and not of images."""
        value = self.transforms
        if not isinstance(value, Sequence) or not value:
            return False
        return all(isinstance(part, Description) and not isinstance(part, Transform) for part in value)

    def params(self, state: TransformState, u: Float) -> None:
        self._check_sizes(state)
        bounds: Float = np.cumsum(self.p or (), dtype=np.float64)
        choice = np.searchsorted(bounds / bounds[-1], u[:, 0], side="right")
        self._distribute(state, choice, self._numbers(u))

    def _check_sizes(self, state: TransformState) -> None:
        """Raise ConfigError where one choice is the first to warp, and another one changes the size."""
        if not self.warps or state.warp is not None or not state.size.size:
            return
        height, width = state.size[:, 0].tolist()  # that of all, as it must be before a warp
        for part in self._parts:
            if not part.warps and part.output_size((height, width)) != (height, width):
                raise ConfigError(
                    f"RandomChoice: {type(part).__name__} changes the size where another choice warps",
                    hint="Put the transform that changes the size before or after RandomChoice.",
                )

    def output_size(self, size: Size | None) -> Size | None:
        sizes = {self._size_after((part,), size) for part in self._parts}
        return sizes.pop() if len(sizes) == 1 else None


@dataclass(frozen=True)
class RandomOrder(NestedTransform):
    """Apply all of a list of transforms in random order; each sample has its own order.

    Args:
        transforms: All orders of them are equally likely. At most one may change the size of images, and none
            where another one warps.
    """

    transforms: Sequence[Transform]

    @property
    def _own_draws(self) -> int:
        """One for each transform."""
        return len(self.transforms)

    def params(self, state: TransformState, u: Float) -> None:
        numbers = self._numbers(u)
        for choice in np.argsort(u[:, : self._own_draws], axis=1, kind="stable").T:
            self._distribute(state, choice, numbers)

    def output_size(self, size: Size | None) -> Size | None:
        changing = [part for part in self.transforms if part.output_size(size) != size]
        if len(changing) > 1 or (changing and self.warps):
            names = " and ".join(type(part).__name__ for part in changing)
            raise ConfigError(
                f"RandomOrder: {names} would change the size at different indices of the list",
                hint="Put what changes the size before or after RandomOrder.",
            )
        return changing[0].output_size(size) if changing else size
