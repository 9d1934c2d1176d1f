"""Colours of a batch while one transform follows another: one affine map, and steps where none will do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..color import GREY
from ..steps import Affine

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..steps import Step

    Float = npt.NDArray[np.float64]
    Rows = npt.NDArray[np.integer]

__all__ = ["UNCHANGED", "ColorMap"]

UNCHANGED = np.eye(3, 7)
"""The map of colours that leaves them as they are."""


@dataclass(kw_only=True)
class ColorMap:
    """What happens to the colours of N images.

    Attributes:
        color: (N, 3, 7) float64, affine map of RGB in 0..255: three columns for the pixel, one constant,
            three for the mean RGB of the image.
        uses_mean: Whether ``color`` may mix in the mean RGB, be it of no sample of this batch.
        painted: Whether ``color`` may be more than the identity, be it for no sample of this batch.
        steps: What happens to pixels before ``color``.
    """

    color: Float
    uses_mean: bool = False
    painted: bool = False
    steps: list[Step] = field(default_factory=list)

    def paint(self, matrix: Float) -> None:
        """Apply an affine map of RGB, (3, 4) or (N, 3, 4), after those before it."""
        self.color = matrix[..., :3] @ self.color
        self.color[..., 3] += matrix[..., 3]
        self.painted = True

    def blend(self, matrix: Float) -> None:
        """Apply a linear map of RGB, (3, 3) or (N, 3, 3), after those before it."""
        self.color = matrix @ self.color
        self.painted = True

    def shift(self, constant: Float) -> None:
        """Add a constant to RGB, (N, 3), after all that is before it."""
        self.color[..., 3] += constant
        self.painted = True

    def mix(self, matrix: Float, grey_share: Float) -> None:
        """Apply a linear map of RGB, (N, 3, 3), and add a share, (N,), of the mean grey at this point.

        The mean of an affine map of pixels is that map of their mean, so nothing need be measured but
        the mean RGB of the image before all colour.
        """
        mean_grey = GREY @ self.color
        mean_grey[:, 4:] += mean_grey[:, :3]
        mean_grey[:, :3] = 0
        self.blend(matrix)
        self.color += (grey_share[:, None] * mean_grey)[:, None]
        self.uses_mean = True

    def add_steps(self, *steps: Step) -> None:
        """Append steps, of which one at most is applied to a sample.

        They find the colours that the transforms before them have made: those of the samples that a
        step is applied to are rounded here, the others go on as a map.
        """
        for step in steps:
            step.check(len(self.color))
        if self.painted:
            where = np.logical_or.reduce([step.where for step in steps])
            changed = (self.color != UNCHANGED).any(axis=(1, 2))
            self.steps.append(Affine(where & changed, *self.affine()))
            self.color = np.where(where[:, None, None], UNCHANGED, self.color)
        self.steps += steps

    def affine(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
        """``color`` and ``mean`` as :class:`stoker.augment.params.image_params.ImageParams` has them."""
        color = self.color.astype(np.float32)
        color, mean = np.ascontiguousarray(color[:, :, :4]), np.ascontiguousarray(color[:, :, 4:])
        return color, mean if self.uses_mean else None

    def put_colors(self, rows: Rows, taken: ColorMap) -> None:
        """The part of :meth:`TransformState.put` that concerns colours."""
        self.color[rows] = taken.color
        self.uses_mean |= taken.uses_mean
        self.painted |= taken.painted
        self.steps += [step.spread(rows, len(self.color)) for step in taken.steps]
