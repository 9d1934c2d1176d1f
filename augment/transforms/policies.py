"""Policies of torchvision.transforms.v2: RandAugment, TrivialAugmentWide, AutoAugment and AugMix.

Magnitudes and what they mean are torchvision's (``torchvision.transforms.v2._auto_augment``, 0.29): a shear
is a tangent about the top left corner, a translation is truncated to whole pixels, a rotation is
counterclockwise about the centre, and a factor is 1 + magnitude. Three things differ in the first three:
interpolation is bilinear by default; all geometry is resampled once, before all colours; and consecutive
changes of colours are not rounded in between. All images must have one size before them.

AugMix executes its chains operation by operation on the output; transforms that follow may mirror or warp
the image, which is done before the chains, and not crop or resize it. torchvision truncates the sum.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache, lru_cache, reduce
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.processes import cached_property

from ..state import GREY, TransformState
from ..steps import Affine, Autocontrast, Distort, Equalize, Posterize, Sharpen, Solarize, Step, WeightedSum
from .base import DRAWS, Float, Int, Transform, dirichlet
from .color import saturation_matrix
from .warps import inverse_rotation

Kind = IntEnum(
    "Kind",
    "Identity ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness Posterize "
    "Solarize AutoContrast Equalize Invert",
    start=0,
)
"""Operations, by torchvision's names."""

GEOMETRIC = frozenset({Kind.ShearX, Kind.ShearY, Kind.TranslateX, Kind.TranslateY, Kind.Rotate})
LINEAR = frozenset({Kind.Brightness, Kind.Color, Kind.Contrast, Kind.Invert})  # affine maps of colours


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
    directed = np.isin(kind, np.arange(Kind.ShearX, Kind.Posterize))
    return np.where(directed & (u < 0.5), -1.0, 1.0)


@dataclass(frozen=True)
class Operations:
    """S operations for each of N samples, one after the other."""

    kind: Int  # (N, S), of :class:`Kind`
    magnitude: Float  # (N, S), as :func:`magnitudes` has them, with their signs
    relative: bool  # Whether translations are shares of the side; otherwise they are pixels
    possible: tuple[Collection[Kind], ...]  # The kinds that each of the S operations may have, in any batch

    def compose(self, state: TransformState, interpolation: str | Enum = "bilinear") -> None:
        """Compose all onto ``state``; ``interpolation`` is for the geometric operations."""
        if any(not GEOMETRIC.isdisjoint(kinds) for kinds in self.possible):
            matrices = self.matrices(state.size).swapaxes(0, 1)
            state.distort(reduce(np.matmul, matrices), interpolation=interpolation)
        linear, grey_share = self.colors()
        for s, kinds in enumerate(self.possible):
            if steps := self.steps(s):  # before the colours of operation s, which are of other samples
                state.add_steps(*steps)
            if not LINEAR.isdisjoint(kinds):
                state.color.linear(linear[:, s, :, :3], grey_share[:, s] if Kind.Contrast in kinds else None)
            if Kind.Invert in kinds:
                state.color.offset(linear[:, s, :, 3])

    @cached_property
    def where(self) -> npt.NDArray[np.bool_]:
        """(len(Kind), S, N), which operations are of each kind."""
        return np.asarray(np.arange(len(Kind))[:, None, None] == self.kind.T)

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
        maps[..., :3] = saturation_matrix(1 + saturation) * plain[..., None, None]
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


_MOST_BINS = 10_000
_KINDS = tuple(kind for kind in Kind if kind != Kind.Invert)


@dataclass(frozen=True)
class RandAugment(Transform):
    """Apply ``num_ops`` operations out of fourteen, one after the other (Cubuk et al., 2019).

    Each is chosen uniformly, with replacement; operations that have a direction take either sign.

    Args:
        num_ops: Number of operations, from 0.
        magnitude: Bin of their magnitude, 0 to ``num_magnitude_bins - 1``.
        num_magnitude_bins: Number of bins, at least 2.
        interpolation: As for :class:`stoker.augment.RandomRotation`, for the geometric operations.
        fill: As for :class:`stoker.augment.RandomRotation`.
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None

    warps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_whole("num_magnitude_bins", 2, _MOST_BINS)
        self.set_warping()
        self.set_whole("num_ops", 0)
        self.set_whole("magnitude", 0, self.num_magnitude_bins - 1)
        self.set("draws", 2 * self.num_ops)  # of each operation its kind and sign

    def params(self, state: TransformState, u: Float) -> None:
        if self.num_ops == 0:
            return
        state.use_fill(self.fill)
        bins = self.num_magnitude_bins
        table = magnitudes(bins, shear=0.3, shift=150 / 331, turn=30, factor=0.9, bits=(8, 4))
        kind = (u[:, : self.num_ops] * len(_KINDS)).astype(np.int64)
        magnitude = table[kind, self.magnitude] * signs(kind, u[:, self.num_ops :])
        Operations(kind, magnitude, True, (_KINDS,) * self.num_ops).compose(state, self.interpolation)


@dataclass(frozen=True)
class TrivialAugmentWide(Transform):
    """Apply one operation out of fourteen, of any magnitude (Müller and Hutter, 2021).

    Operation, magnitude and sign are chosen uniformly.

    Args:
        num_magnitude_bins: Number of bins of magnitudes, at least 2.
        interpolation: As for :class:`RandAugment`.
        fill: As for :class:`RandAugment`.
    """

    num_magnitude_bins: int = 31
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None

    draws: ClassVar[int] = 3
    warps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_whole("num_magnitude_bins", 2, _MOST_BINS)
        self.set_warping()

    def params(self, state: TransformState, u: Float) -> None:
        state.use_fill(self.fill)
        table = magnitudes(self.num_magnitude_bins, shear=0.99, shift=32, turn=135, factor=0.99, bits=(8, 6))
        kind = (u[:, :1] * len(_KINDS)).astype(np.int64)
        level = (u[:, 1:2] * self.num_magnitude_bins).astype(np.int64)
        magnitude = table[kind, level] * signs(kind, u[:, 2:])
        Operations(kind, magnitude, False, (_KINDS,)).compose(state, self.interpolation)


_BINS = 10


@dataclass(frozen=True)
class AutoAugment(Transform):
    """Apply one of 25 learned pairs of operations, each with its own probability (Cubuk et al., 2018).

    Pairs are chosen uniformly; operations that have a direction take either sign.

    Args:
        policy: Dataset that the pairs were learned on, "imagenet", "cifar10" or "svhn", or torchvision's
            ``AutoAugmentPolicy``.
        interpolation: As for :class:`stoker.augment.RandAugment`.
        fill: As for :class:`stoker.augment.RandAugment`.
    """

    policy: str = "imagenet"
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None

    draws: ClassVar[int] = 5
    warps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        name = getattr(self.policy, "value", self.policy)
        known = ("imagenet", "cifar10", "svhn")
        self.check("policy", isinstance(name, str) and name in known, f"one of {', '.join(known)}")
        self.set("policy", name)
        self.set_warping()

    def params(self, state: TransformState, u: Float) -> None:
        state.use_fill(self.fill)
        policy = _policies()[self.policy]
        pair = (u[:, 0] * len(policy.kind)).astype(np.int64)
        applied = u[:, 1:3] < policy.probability[pair]
        kind = np.where(applied, policy.kind[pair], Kind.Identity)
        magnitude = policy.magnitude[pair] * signs(kind, u[:, 3:])
        Operations(kind, magnitude, True, policy.possible).compose(state, self.interpolation)


class _Policy(NamedTuple):
    """P pairs as arrays of shape (P, 2), and the kinds that the first and the second of a pair can be."""

    kind: Int
    probability: Float
    magnitude: Float
    possible: tuple[frozenset[Kind], ...]


@cache
def _policies() -> dict[str, _Policy]:
    """The learned policies by the names of their datasets."""
    # The file has for each operation of a pair its kind, its probability and the bin of its magnitude.
    path = Path(__file__).parents[1] / "recipes" / "policies" / "autoaugment.json"
    table = magnitudes(_BINS, shear=0.3, shift=150 / 331, turn=30, factor=0.9, bits=(8, 4))
    policies = {}
    for name, pairs in json.loads(path.read_text("utf-8")).items():
        kind = np.array([[Kind[operation] for operation, _, _ in pair] for pair in pairs], np.int64)
        probability = np.array([[share for _, share, _ in pair] for pair in pairs])
        level = np.array([[level for _, _, level in pair] for pair in pairs])
        possible = tuple(frozenset(map(Kind, kinds)) for kinds in kind.T.tolist())
        policies[name] = _Policy(kind, probability, table[kind, level], possible)
    return policies


_DEEPEST = 3  # the largest number of operations in a chain of random depth
_PARTIAL = (*sorted(GEOMETRIC), Kind.Posterize, Kind.Solarize, Kind.AutoContrast, Kind.Equalize)
_ALL = (*_PARTIAL, Kind.Brightness, Kind.Color, Kind.Contrast, Kind.Sharpness)


@dataclass(frozen=True)
class AugMix(Transform):
    """A weighted sum of the image and of the results of short chains of operations (Hendrycks et al., 2020).

    The weight of the image against all chains follows a Beta distribution. The chains share their weight by a
    Dirichlet distribution. Operations and magnitudes are chosen uniformly.

    Args:
        severity: Number of bins of magnitudes that are chosen from, 1 to 10.
        mixture_width: Number of chains.
        chain_depth: Number of operations in a chain; 0 or less for 1 to 3, drawn uniformly.
        alpha: Parameter of both distributions, more than 0.
        all_ops: Whether brightness, colour, contrast and sharpness are among the operations.
        interpolation: As for :class:`stoker.augment.RandAugment`.
        fill: As for :class:`stoker.augment.RandAugment`.
    """

    severity: int = 3
    mixture_width: int = 3
    chain_depth: int = -1
    alpha: float = 1.0
    all_ops: bool = True
    interpolation: str | Enum = "bilinear"
    fill: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.set_whole("severity", 1, _BINS)
        self.set_whole("mixture_width")
        self.set_whole("chain_depth", None)
        self.check_positive("alpha")
        self.check_flag("all_ops")
        self.set_warping()
        # Weights; then for each chain its depth, and the kind, bin and sign of each operation.
        self.set("draws", (2 + self.mixture_width) * DRAWS + self.mixture_width * (1 + 3 * self._deepest))

    def params(self, state: TransformState, u: Float) -> None:
        state.use_fill(self.fill)
        width = self.mixture_width
        own, among, depth, rest = np.split(u, np.cumsum((2 * DRAWS, width * DRAWS, width)), axis=1)
        shares = dirichlet(self.alpha, own)
        weights = np.concatenate((shares[:, :1], shares[:, 1:] * dirichlet(self.alpha, among)), axis=1)
        fill, nearest = tuple(state.fill.tolist()), self.interpolation == "nearest"
        steps = _chain_steps(self._operations(depth, rest), state.size, fill, nearest)
        chains = [sum(steps[k : k + self._deepest], ()) for k in range(0, len(steps), self._deepest)]
        state.fix_size(type(self).__name__)
        state.add_steps(WeightedSum(np.ones(len(u), np.bool_), weights.astype(np.float32), tuple(chains)))

    @property
    def _deepest(self) -> int:
        return self.chain_depth if self.chain_depth > 0 else _DEEPEST

    def _operations(self, depth: Float, rest: Float) -> Operations:
        """The operations of one chain after the other; those beyond a chain's depth are Identity."""
        kinds = _ALL if self.all_ops else _PARTIAL
        kind_number, level, sign = np.split(rest, 3, axis=1)
        kind = np.array(kinds, np.int64)[(kind_number * len(kinds)).astype(np.int64)]
        if self.chain_depth <= 0:
            deep = (depth * _DEEPEST).astype(np.int64)[..., None] >= np.arange(_DEEPEST)
            kind = np.where(deep.reshape(kind.shape), kind, Kind.Identity)
        table = magnitudes(_BINS, shear=0.3, shift=1 / 3, turn=30, factor=0.9, bits=(4, 4))
        magnitude = table[kind, (level * self.severity).astype(np.int64)] * signs(kind, sign)
        return Operations(kind, magnitude, True, (kinds,) * kind.shape[1])


def _chain_steps(
    operations: Operations, size: Int, fill: tuple[int, int, int], nearest: bool
) -> list[tuple[Step, ...]]:
    """The steps of each operation, for images of ``size``, (2, N)."""
    matrices = operations.matrices(size)
    colors, grey_share = operations.colors()
    maps = colors.astype(np.float32)
    mean = np.repeat(grey_share[..., None, None] * GREY, 3, axis=2).astype(np.float32)
    warped, painted = (
        np.asarray(operations.where[sorted(kinds)].any(axis=0)) for kinds in (GEOMETRIC, LINEAR)
    )
    steps: list[tuple[Step, ...]] = []
    for s, kinds in enumerate(operations.possible):
        chain: list[Step] = [Distort(warped[s], matrices[:, s], fill, nearest)]
        if not LINEAR.isdisjoint(kinds):
            chain.append(Affine(painted[s], maps[:, s], mean[:, s]))
        steps.append((*chain, *operations.steps(s)))
    return steps
