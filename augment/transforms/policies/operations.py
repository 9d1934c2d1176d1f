"""The operations that RandAugment, TrivialAugmentWide, AutoAugment and AugMix choose from, for a batch.

Magnitudes and what they mean are torchvision's (``torchvision.transforms.v2._auto_augment``, 0.29): a
shear is a tangent about the top left corner, a translation is truncated to whole pixels, a rotation is
counterclockwise about the centre, and a factor is 1 + magnitude.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from ...formulas import color
from ...state.transform_state import TransformState
from ...steps import Autocontrast, Equalize, Posterize, Sharpen, Solarize, Step
from ..warps.matrices import inverse_rotation

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


class Kind(IntEnum):
    """Operations; the names are torchvision's."""

    Identity = 0
    ShearX = 1
    ShearY = 2
    TranslateX = 3
    TranslateY = 4
    Rotate = 5
    Brightness = 6
    Color = 7
    Contrast = 8
    Sharpness = 9
    Posterize = 10
    Solarize = 11
    AutoContrast = 12
    Equalize = 13
    Invert = 14


GEOMETRIC = frozenset({Kind.ShearX, Kind.ShearY, Kind.TranslateX, Kind.TranslateY, Kind.Rotate})
LINEAR = frozenset({Kind.Brightness, Kind.Color, Kind.Contrast, Kind.Invert})
"""Kinds that are affine maps of colours."""

_NUMBERS = np.arange(len(Kind))[:, None, None]
_SIGNED = np.isin(np.arange(len(Kind)), [*range(Kind.ShearX, Kind.Sharpness + 1)])


@lru_cache(maxsize=16)
def magnitudes(
    bins: int, *, shear: float, shift: float, turn: float, factor: float, bits: tuple[int, int]
) -> Float:
    """The magnitude of each kind in each of ``bins`` bins, (len(Kind), bins), rising from none."""
    ramp = np.linspace(0, 1, bins)
    table = np.zeros((len(Kind), bins))
    table[[Kind.ShearX, Kind.ShearY]] = shear * ramp
    table[[Kind.TranslateX, Kind.TranslateY]] = shift * ramp
    table[Kind.Rotate] = turn * ramp
    table[[Kind.Brightness, Kind.Color, Kind.Contrast, Kind.Sharpness]] = factor * ramp
    table[Kind.Posterize] = np.rint(bits[0] - bits[1] * ramp)
    table[Kind.Solarize] = 255 - 255 * ramp
    table.flags.writeable = False
    return table


def signs(kind: Int, u: Float) -> Float:
    """-1 for half of the operations that have a direction, else 1; all of one shape."""
    return np.where(_SIGNED[kind] & (u < 0.5), -1.0, 1.0)


@dataclass(frozen=True)
class Operations:
    """S operations for each of N samples, one after the other."""

    kind: Int  # (N, S) int64, of :class:`Kind`
    magnitude: Float  # (N, S) float64, as :func:`magnitudes` has them, with their signs
    relative: bool  # Whether translations are shares of the side; otherwise they are pixels
    # S collections: the kinds that each of the S operations may have, in any batch
    possible: tuple[Collection[Kind], ...]

    def compose(self, state: TransformState, interpolation: str | Enum = "bilinear") -> None:
        """Compose all onto ``state``; ``interpolation`` is that of the geometric operations."""
        if any(not GEOMETRIC.isdisjoint(kinds) for kinds in self.possible):
            state.distort(_product(self.matrices(state.size)), interpolation=interpolation)
        linear, grey_share = self.colors()
        for s, kinds in enumerate(self.possible):
            steps = self.steps(s)  # before the colours of operation s, which are of other samples
            if steps:
                state.add_steps(*steps)
            if Kind.Contrast in kinds:
                state.color.linear(linear[:, s, :, :3], grey_share[:, s])
            elif not LINEAR.isdisjoint(kinds):
                state.color.linear(linear[:, s, :, :3])
            if Kind.Invert in kinds:
                state.color.offset(linear[:, s, :, 3])

    @cached_property
    def where(self) -> npt.NDArray[np.bool_]:
        """(len(Kind), S, N), which operations are of each kind."""
        return np.asarray(self.kind.T == _NUMBERS)

    @cached_property
    def by_kind(self) -> Float:
        """(len(Kind), S, N), ``magnitude`` of the operations of each kind, 0 for others."""
        return np.where(self.where, self.magnitude.T, 0.0)

    def matrices(self, size: Int) -> Float:
        """(N, S, 3, 3), from (x, y, 1) in the output of each to its input, for images of ``size``, (2, N)."""
        shear_x, shear_y, *shifts, turn = self.by_kind[Kind.ShearX : Kind.Rotate + 1]
        sizes = np.repeat(size[::-1, None], len(turn), axis=1)
        matrix = inverse_rotation(sizes.reshape(2, -1) / 2, -turn.ravel()).reshape(*turn.shape, 3, 3)
        matrix[..., 0, 1] += shear_x
        matrix[..., 1, 0] += shear_y
        shift = np.array(shifts)
        if self.relative:
            shift *= sizes
        # A product that is a whole number but for its last bit counts as that number.
        matrix[..., :2, 2] -= np.moveaxis(np.trunc(shift + np.copysign(1e-6, shift)), 0, -1)
        return np.asarray(matrix.swapaxes(0, 1))

    def colors(self) -> tuple[Float, Float]:
        """(N, S, 3, 4) affine maps of RGB, and the shares of the mean grey, (N, S), that are added."""
        brightness, saturation, contrast = self.by_kind[Kind.Brightness : Kind.Contrast + 1]
        inverted = self.where[Kind.Invert]
        plain = np.where(inverted, -1.0, 1 + brightness + contrast)
        maps = np.empty((*plain.shape, 3, 4))
        maps[..., :3] = color.saturation(1 + saturation) * plain[..., None, None]
        maps[..., 3] = 255.0 * inverted[..., None]
        return maps.swapaxes(0, 1), -contrast.T

    def steps(self, s: int) -> list[Step]:
        """The steps of operation ``s`` of each sample; at most one is applied to a sample."""
        possible = self.possible[s]
        return [step(self.where[kind, s], self.by_kind[kind, s]) for kind, step in _STEPS if kind in possible]


# Each function makes a step from the samples that it is applied to, (N,) bool, and their magnitudes, (N,).
_STEPS: tuple[tuple[Kind, Callable[[npt.NDArray[np.bool_], Float], Step]], ...] = (
    (Kind.Sharpness, lambda where, magnitude: Sharpen(where, (1 + magnitude).astype(np.float32))),
    (Kind.Posterize, lambda where, magnitude: Posterize(where, magnitude.astype(np.uint8))),
    (Kind.Solarize, lambda where, magnitude: Solarize(where, np.ceil(magnitude - 1e-6).astype(np.int16))),
    (Kind.AutoContrast, lambda where, _: Autocontrast(where)),
    (Kind.Equalize, lambda where, _: Equalize(where)),
)


def _product(matrices: Float) -> Float:
    """Products of (N, S, 3, 3) over their second axis, (N, 3, 3)."""
    product = matrices[:, 0]
    for s in range(1, matrices.shape[1]):
        product = product @ matrices[:, s]
    return product
