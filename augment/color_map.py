"""Colours of a batch as affine maps of RGB, and the matrices of colour operations.

Each function takes the draws of N samples, (N,) arrays, and returns (N, 3, 3) float64 matrices
that act on RGB columns; brightness and saturation take any shape in place of (N,). Grey is torchvision's:
0.2989 R + 0.587 G + 0.114 B (ITU-R BT.601, rounded).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .steps import Affine, Step

Float = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


GREY = np.array([0.2989, 0.587, 0.114])
"""Weights of R, G and B in grey."""

_IDENTITY = np.eye(3)
_CIRCULANT = np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0]])


def brightness(factor: Float) -> Float:
    """``factor * rgb``."""
    return np.asarray(factor[..., None, None] * _IDENTITY)


def saturation(factor: Float) -> Float:
    """``factor * rgb + (1 - factor) * grey``."""
    return np.asarray(brightness(factor) + (1 - factor)[..., None, None] * GREY)


def grayscale(where: npt.NDArray[np.bool_]) -> Float:
    """Grey in all three channels where ``where`` is true."""
    return saturation(np.where(where, 0.0, 1.0))


def hue(turn: Float) -> Float:
    """Rotation of RGB space about the grey axis by ``turn`` of a full turn; red to green is 1/3.

    It keeps the mean of the channels and the distance from grey. torchvision shifts the hue of HSV,
    which is not linear: it keeps the largest and the smallest channel. The two are equal at thirds of
    a turn and for grey; in between a saturated colour differs by up to a third of the range (at a
    sixth of a turn; a seventh at 0.05).
    """
    angle = 2 * np.pi * turn
    even, odd = (1 - np.cos(angle)) / 3, np.sin(angle) / np.sqrt(3)
    circulant = np.stack((1 - 2 * even, even - odd, even + odd), axis=-1)
    return circulant[:, _CIRCULANT]


def permutation(order: npt.NDArray[np.int64]) -> Float:
    """Channel ``i`` becomes what channel ``order[:, i]`` was; (N, 3) integers."""
    return np.eye(3)[order]


_UNCHANGED = np.eye(3, 7)
"""The map that changes no colour."""


@dataclass(kw_only=True)
class ColorMap:
    """What happens to the colours of N images."""

    # (N, 3, 7) float64, affine map of RGB in 0..255: three columns for the pixel, one constant, three for the
    # mean RGB of the image
    matrix: Float
    # Whether ``matrix`` may add the mean RGB, even if it does so for no sample of this batch
    uses_mean: bool = False
    # Whether ``matrix`` may differ from the identity, even if it does so for no sample here
    changed: bool = False
    steps: list[Step] = field(default_factory=list)  # What happens to pixels before ``matrix``

    @classmethod
    def of(cls, n: int) -> ColorMap:
        """Colours of ``n`` images as they come."""
        return cls(matrix=np.tile(_UNCHANGED, (n, 1, 1)))

    def take(self, rows: Rows) -> ColorMap:
        """The colours of the samples at ``rows``, without steps."""
        return ColorMap(matrix=self.matrix[rows], uses_mean=self.uses_mean, changed=self.changed)

    def put(self, rows: Rows, taken: ColorMap) -> None:
        """Give the samples at ``rows`` the colours ``taken``, and append the steps of ``taken``."""
        self.matrix[rows] = taken.matrix
        self.uses_mean |= taken.uses_mean
        self.changed |= taken.changed
        self.steps += [step.spread(rows, len(self.matrix)) for step in taken.steps]

    def affine(self, matrix: Float) -> None:
        """Apply an affine map of RGB, (3, 4) or (N, 3, 4), after the colours before it."""
        self.linear(matrix[..., :3])
        self.offset(matrix[..., 3])

    def linear(self, matrix: Float, grey_share: Float | None = None) -> None:
        """Apply a linear map of RGB, (3, 3) or (N, 3, 3), after the colours before it.

        With ``grey_share``, (N,), that share of the image's mean grey at this point is added. An affine map
        of pixels maps their mean in the same way, so an engine need only measure the mean RGB of the image
        before all colour.
        """
        mean_grey = None if grey_share is None else GREY @ self.matrix
        self.matrix = matrix @ self.matrix
        self.changed = True
        if mean_grey is not None and grey_share is not None:
            mean_grey[:, 4:] += mean_grey[:, :3]
            mean_grey[:, :3] = 0
            self.matrix += (grey_share[:, None] * mean_grey)[:, None]
            self.uses_mean = True

    def offset(self, constant: Float) -> None:
        """Add a constant to RGB, (3,) or (N, 3), after the colours before it."""
        self.matrix[..., 3] += constant
        self.changed = True

    def add_steps(self, *steps: Step) -> None:
        """Append steps that exclude each other: no sample takes two of one call.

        Steps act on the colours that the transforms before them have made: the map of the samples that a
        step is applied to is rounded here, the map of the others goes on.
        """
        for step in steps:
            step.check(len(self.matrix))
        if self.changed:
            where = np.logical_or.reduce([step.where for step in steps])
            changed = (self.matrix != _UNCHANGED).any(axis=(1, 2))
            self.steps.append(Affine(where & changed, *self.parts()))
            self.matrix = np.where(where[:, None, None], _UNCHANGED, self.matrix)
        self.steps += steps

    def parts(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
        """``color`` and ``mean_matrix`` of :class:`stoker.augment.params.ImageParams`."""
        matrix = self.matrix.astype(np.float32)
        color, mean_matrix = np.ascontiguousarray(matrix[:, :, :4]), np.ascontiguousarray(matrix[:, :, 4:])
        return color, mean_matrix if self.uses_mean else None

    def blank(self, where: npt.NDArray[np.bool_], fill: npt.NDArray[np.uint8]) -> None:
        """Let the maps of images at which ``where``, (N,) bool, is true ignore pixels and return ``fill``.

        An engine then need not treat empty images specially.
        """
        for i in np.flatnonzero(where).tolist():
            pixels = fill[None, None]
            for step in self.steps:
                pixels = step.run(i, pixels)
            self.matrix[i, :, 3] += (self.matrix[i, :, :3] + self.matrix[i, :, 4:]) @ pixels[0, 0]
        self.matrix[where, :, :3] = self.matrix[where, :, 4:] = 0
