"""Stoker with its C++ engine and more to do to each image."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stoker.augment import ColorJitter, RandAugment
from stoker.benchmarks.peers.base import JITTER, RAND_AUGMENT
from stoker.benchmarks.peers.stoker_native import StokerNative

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.augment import Transform

__all__ = ["StokerJitter", "StokerRandAugment"]


class StokerJitter(StokerNative):
    """And ColorJitter."""

    colors: ClassVar[Sequence[Transform]] = (ColorJitter(*JITTER),)


class StokerRandAugment(StokerNative):
    """And RandAugment."""

    colors: ClassVar[Sequence[Transform]] = (RandAugment(*RAND_AUGMENT),)
