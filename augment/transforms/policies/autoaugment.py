"""Learned policies: torchvision.transforms.v2.AutoAugment.

Differences from torchvision are those of :mod:`stoker.augment.transforms.policies.randaugment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ...geometry.interpolation import WARPING
from ...state.transform_state import TransformState
from ..base import Transform
from .operations import Kind, Operations, magnitudes, signs

Float = npt.NDArray[np.float64]

_BINS = 10

# Pairs of an operation, its probability and, where it has one, the bin of its magnitude.
_POLICIES = {
    "imagenet": """
        Posterize 0.4 8, Rotate 0.6 9
        Solarize 0.6 5, AutoContrast 0.6
        Equalize 0.8, Equalize 0.6
        Posterize 0.6 7, Posterize 0.6 6
        Equalize 0.4, Solarize 0.2 4
        Equalize 0.4, Rotate 0.8 8
        Solarize 0.6 3, Equalize 0.6
        Posterize 0.8 5, Equalize 1
        Rotate 0.2 3, Solarize 0.6 8
        Equalize 0.6, Posterize 0.4 6
        Rotate 0.8 8, Color 0.4 0
        Rotate 0.4 9, Equalize 0.6
        Equalize 0, Equalize 0.8
        Invert 0.6, Equalize 1
        Color 0.6 4, Contrast 1 8
        Rotate 0.8 8, Color 1 2
        Color 0.8 8, Solarize 0.8 7
        Sharpness 0.4 7, Invert 0.6
        ShearX 0.6 5, Equalize 1
        Color 0.4 0, Equalize 0.6
        Equalize 0.4, Solarize 0.2 4
        Solarize 0.6 5, AutoContrast 0.6
        Invert 0.6, Equalize 1
        Color 0.6 4, Contrast 1 8
        Equalize 0.8, Equalize 0.6
    """,
    "cifar10": """
        Invert 0.1, Contrast 0.2 6
        Rotate 0.7 2, TranslateX 0.3 9
        Sharpness 0.8 1, Sharpness 0.9 3
        ShearY 0.5 8, TranslateY 0.7 9
        AutoContrast 0.5, Equalize 0.9
        ShearY 0.2 7, Posterize 0.3 7
        Color 0.4 3, Brightness 0.6 7
        Sharpness 0.3 9, Brightness 0.7 9
        Equalize 0.6, Equalize 0.5
        Contrast 0.6 7, Sharpness 0.6 5
        Color 0.7 7, TranslateX 0.5 8
        Equalize 0.3, AutoContrast 0.4
        TranslateY 0.4 3, Sharpness 0.2 6
        Brightness 0.9 6, Color 0.2 8
        Solarize 0.5 2, Invert 0
        Equalize 0.2, AutoContrast 0.6
        Equalize 0.2, Equalize 0.6
        Color 0.9 9, Equalize 0.6
        AutoContrast 0.8, Solarize 0.2 8
        Brightness 0.1 3, Color 0.7 0
        Solarize 0.4 5, AutoContrast 0.9
        TranslateY 0.9 9, TranslateY 0.7 9
        AutoContrast 0.9, Solarize 0.8 3
        Equalize 0.8, Invert 0.1
        TranslateY 0.7 9, AutoContrast 0.9
    """,
    "svhn": """
        ShearX 0.9 4, Invert 0.2
        ShearY 0.9 8, Invert 0.7
        Equalize 0.6, Solarize 0.6 6
        Invert 0.9, Equalize 0.6
        Equalize 0.6, Rotate 0.9 3
        ShearX 0.9 4, AutoContrast 0.8
        ShearY 0.9 8, Invert 0.4
        ShearY 0.9 5, Solarize 0.2 6
        Invert 0.9, AutoContrast 0.8
        Equalize 0.6, Rotate 0.9 3
        ShearX 0.9 4, Solarize 0.3 3
        ShearY 0.8 8, Invert 0.7
        Equalize 0.9, TranslateY 0.6 6
        Invert 0.9, Equalize 0.6
        Contrast 0.3 3, Rotate 0.8 4
        Invert 0.8, TranslateY 0 2
        ShearY 0.7 6, Solarize 0.4 8
        Invert 0.6, Rotate 0.8 4
        ShearY 0.3 7, TranslateX 0.9 3
        ShearX 0.1 6, Invert 0.6
        Solarize 0.7 2, TranslateY 0.6 7
        ShearY 0.8 4, Invert 0.8
        ShearX 0.7 9, TranslateY 0.8 3
        ShearY 0.8 5, AutoContrast 0.7
        ShearX 0.7 2, Invert 0.1
    """,
}


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
        self.check("policy", isinstance(name, str) and name in _POLICIES, f"one of {', '.join(_POLICIES)}")
        self.set("policy", name)
        self.set_interpolation(*WARPING)
        self.set_fill(optional=True)

    def params(self, state: TransformState, u: Float) -> None:
        """See :class:`Transform`."""
        state.use_fill(self.fill)
        policy = _policy(self.policy)
        pair = (u[:, 0] * len(policy.kind)).astype(np.int64)
        applied = u[:, 1:3] < policy.probability[pair]
        kind = np.where(applied, policy.kind[pair], Kind.Identity)
        magnitude = policy.magnitude[pair] * signs(kind, u[:, 3:])
        Operations(kind, magnitude, True, policy.possible).compose(state, self.interpolation)


class _Policy(NamedTuple):
    """P pairs as arrays of shape (P, 2), and the kinds that the first and the second of a pair can be."""

    kind: npt.NDArray[np.int64]
    probability: Float
    magnitude: Float
    possible: tuple[frozenset[Kind], ...]


@lru_cache(maxsize=len(_POLICIES))
def _policy(name: str) -> _Policy:
    rows = [line.split(", ") for line in _POLICIES[name].strip().splitlines()]
    words = [[operation.split() for operation in pair] for pair in rows]
    kind = np.array([[Kind[operation[0]] for operation in pair] for pair in words], np.int64)
    probability = np.array([[float(operation[1]) for operation in pair] for pair in words])
    level = np.array([[int([*operation, "0"][2]) for operation in pair] for pair in words])
    table = magnitudes(_BINS, shear=0.3, shift=150 / 331, turn=30, factor=0.9, bits=(8, 4))
    possible = tuple(frozenset(map(Kind, kinds)) for kinds in kind.T.tolist())
    return _Policy(kind, probability, table[kind, level], possible)
