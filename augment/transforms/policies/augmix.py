"""Weighted sums of chains of operations: torchvision.transforms.v2.AugMix.

Chains are executed operation by operation, each geometric operation on the uint8 image that it finds.
They act on the output. Transforms that follow may mirror or warp the image, which is done before the chains.
They may not crop or resize it. The sum is rounded; torchvision truncates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ...description import is_count
from ...formulas.color import GREY
from ...formulas.dirichlet import DRAWS, dirichlet
from ...geometry.interpolation import WARPING
from ...state.transform_state import TransformState
from ...steps import Affine, Distort, Step, WeightedSum
from ..base import Transform
from .operations import GEOMETRIC, LINEAR, Kind, Operations, magnitudes, signs

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

_BINS = 10
_DEEPEST = 3
"""Largest number of operations in a chain of random depth."""
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
        good = is_count(self.severity) and self.severity <= _BINS
        self.check("severity", good, "an integer within 1 to 10")
        self.check("mixture_width", is_count(self.mixture_width), "a positive integer")
        good = isinstance(self.chain_depth, int) and not isinstance(self.chain_depth, bool)
        self.check("chain_depth", good, "an integer")
        self.check_positive("alpha")
        self.check("all_ops", isinstance(self.all_ops, bool), "True or False")
        self.set_interpolation(*WARPING)
        self.set_fill(optional=True)
        # Weights; then for each chain its depth, and the kind, bin and sign of each operation.
        self.set("draws", (2 + self.mixture_width) * DRAWS + self.mixture_width * (1 + 3 * self._deepest))

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
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
