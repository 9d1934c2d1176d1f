"""Base of the transforms that make one image of several samples of the epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stoker.random import derive_key, hash_words, uniform

from ...description import is_whole
from ...params.composition import Parts
from ..base import Transform

Int = npt.NDArray[np.int64]

_PARTNERS = -2_000_000
"""Position that keys the partners of the first transform of a list; those of the next are below it."""


@dataclass(frozen=True)
class Partners:
    """What decides the partners of an image's sample."""

    draws: int  # Number of draws of the epoch, among which partners are drawn uniformly
    seed: int  # Any integer
    key_epoch: int  # Epoch that keys random numbers
    epoch: int  # Number of the epoch
    shuffled: bool = True  # Whether neighbouring draws are not neighbours in the dataset

    def uniform(self, index: int, keys: Int, count: int) -> npt.NDArray[np.float64]:
        """(M, count) random numbers of the transform at ``index`` of its list, for M keys."""
        return uniform(derive_key(self.seed, self.key_epoch, _PARTNERS - index), keys, count)

    def others(self, draw: Int, u: npt.NDArray[np.float64], buffer: int | None = None) -> Int:
        """Other draws of the epoch, (M, K), no two of a row the same.

        If there are too few draws, they may repeat.
        """
        # draw (M,), u (M, K)
        count = u.shape[1]
        draws = self.draws if buffer is None else min(self.draws, buffer + 1)
        if draws <= count:
            return (u * draws).astype(np.int64)
        first = np.clip(draw + 1 - draws, 0, self.draws - draws)
        taken = (draw - first)[:, None]
        for k in range(count):
            # The number of a draw among the remaining draws becomes its number among all draws.
            chosen = (u[:, k] * (draws - 1 - k)).astype(np.int64)
            for before in np.sort(taken, axis=1).T:
                chosen += chosen >= before
            taken = np.column_stack((taken, chosen))
        return taken[:, 1:] + first[:, None]


@dataclass(frozen=True)
class Combining(Transform):
    """Base of transforms that show several samples in one image.

    :meth:`add_parts` chooses the samples by random numbers alone, so that a loader knows beforehand which
    samples it reads. ``params`` of the class then acts on the parts: each part is one image of the state.

    Attributes:
        layered: Whether it adds layers, which have separate random numbers before this transform, and
            those of the image after it.
        columns: Columns of annotations that can follow it; see
            :class:`~stoker.augment.batch.base.BatchTransform`.
    """

    combines: ClassVar[bool] = True
    layered: ClassVar[bool] = False
    columns: ClassVar[frozenset[str]] = frozenset()

    def add_parts(self, parts: Parts, index: int, partners: Partners) -> Parts:
        """Return the parts with those that this transform, at ``index`` of its list, adds.

        It is called from the last transform of a list to the first, because an added layer passes through
        the transforms before it.
        """
        raise NotImplementedError


class UntilEpoch(Combining):
    """Base of transforms that stop at ``stop_epoch``, as YOLO's ``close_mosaic`` does; None never stops."""

    stop_epoch: int | None

    def has_stopped(self, epoch: int) -> bool:
        """Whether ``epoch`` is one without the transform."""
        return self.stop_epoch is not None and epoch >= self.stop_epoch

    def check_stop_epoch(self) -> None:
        """Raise ConfigError if ``stop_epoch`` is not the number of an epoch."""
        known = self.stop_epoch is None or is_whole(self.stop_epoch)
        self.check("stop_epoch", known, "the number of an epoch, from 0, or None")


class SecondLayer(UntilEpoch):
    """Base of transforms that give some images a second layer, which passes through the transforms before.

    Attributes:
        layer: Word that keys the random numbers of the second layer; each subclass has another one.
        p: Probability of a second layer.
    """

    layer: ClassVar[int]
    p: float

    layered: ClassVar[bool] = True
    columns: ClassVar[frozenset[str]] = frozenset({"boxes", "keypoints", "masks"})

    def add_parts(self, parts: Parts, index: int, partners: Partners) -> Parts:
        """See :class:`.base.Combining`."""
        if self.has_stopped(partners.epoch):
            return parts
        u = partners.uniform(index, parts.image_keys, 2)
        chosen = u[:, 0] < self.p
        copies = parts.take(np.flatnonzero(chosen))
        keys = hash_words((self.layer,), copies.keys).view(np.int64)
        draw = partners.others(copies.draw, u[chosen, 1:])[:, 0]
        return parts.joined(replace(copies, layer=copies.layer + 1, draw=draw, keys=keys))
