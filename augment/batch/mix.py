"""MixUp and CutMix: samples of a batch mixed in pairs, with labels that are shares of classes.

They act on the finished batch, see :mod:`stoker.augment.batch.base`. Three things differ from
torchvision.transforms.v2 (0.29): each sample draws a share, where torchvision draws one share for the batch;
a probability may leave samples as they are; and images may still be uint8.

timm's ``Mixup(mixup_alpha, cutmix_alpha, prob=p, switch_prob=s)`` is a
``RandomChoice([MixUp(mixup_alpha, p), CutMix(cutmix_alpha, p)], p=[1 - s, s])``. It draws MixUp or CutMix for
a batch, and then for each sample whether it is mixed; timm's default mode draws that for the batch, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker.random import derive_key, uniform
from stoker.types import Layout, Size

from ..description import added
from ..formulas.dirichlet import symmetric_beta
from .base import BatchParams, BatchTransform, from_float32, one_hot, to_float32

Samples = npt.NDArray[np.int64]

_MIXUP, _CUTMIX = -1, -2
"""Positions for ``derive_key``, below those of any list of transforms."""


@dataclass(frozen=True)
class MixParams(BatchParams):
    """How N images and their labels are mixed with those of other samples in the batch."""

    partner: npt.NDArray[np.int64]  # (N,) int64, index in the batch of the other sample
    share: npt.NDArray[np.float32]  # (N,) float32, weight of the image's own pixels, outside of ``box``
    # (N, 4) int32, top, left, height, width of the box in which the partner's pixels replace the image's own
    box: npt.NDArray[np.int32]
    label_share: npt.NDArray[np.float32]  # (N,) float32, weight of the sample's own label

    def __len__(self) -> int:
        return len(self.partner)

    def images(self, images: npt.NDArray[Any], layout: Layout = "NCHW") -> npt.NDArray[Any]:
        """Mix pixels, computed in float32; see :class:`~stoker.augment.batch.base.BatchParams`."""
        mixed: npt.NDArray[Any] = images.copy()
        for i in np.flatnonzero(self.share < 1).tolist():
            first, second = to_float32(images[i]), to_float32(images[self.partner[i]])
            mixed[i] = from_float32(self.share[i] * first + (1 - self.share[i]) * second, images.dtype)
        for i, rows, columns in self._boxes():
            box = np.s_[:, rows, columns] if layout == "NCHW" else np.s_[rows, columns]
            mixed[i][box] = images[self.partner[i]][box]
        return mixed

    def labels(self, labels: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.float32]:
        """Labels in the shares of ``label_share``; see :class:`~stoker.augment.batch.base.BatchParams`."""
        soft = one_hot(labels, num_classes)
        share = self.label_share[:, None]
        return np.asarray(share * soft + (1 - share) * soft[self.partner])

    def segmentation(self, masks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Masks, in which CutMix replaces the same boxes as in images; see :class:`BatchParams`."""
        mixed: npt.NDArray[Any] = masks.copy()
        for i, rows, columns in self._boxes():
            mixed[i, rows, columns] = masks[self.partner[i], rows, columns]
        return mixed

    def _boxes(self) -> list[tuple[int, slice, slice]]:
        boxes = enumerate(self.box.tolist())
        return [(i, slice(top, top + h), slice(left, left + w)) for i, (top, left, h, w) in boxes]


@dataclass(frozen=True)
class MixUp(BatchTransform):
    """Add two images, and their labels, in shares that follow Beta(alpha, alpha) (Zhang et al., 2018).

    Args:
        alpha: Parameter of the Beta distribution, more than 0; 1 for uniform shares.
        p: Probability that a sample is mixed.
    """

    alpha: float = 1.0
    p: float = added(1.0)

    columns: ClassVar[frozenset[str]] = frozenset({"label"})

    def __post_init__(self) -> None:
        self.check_positive("alpha")
        self.check_probability()

    def draw(self, samples: Samples, size: Size, seed: int, epoch: int) -> MixParams:
        """Decide for a batch; see :class:`~stoker.augment.batch.base.BatchTransform`.

        The partner is the sample before, as in torchvision; that of the first sample is the last one.
        """
        del size  # CutMix needs it, and both have the same signature
        n = len(samples)
        u = uniform(derive_key(seed, epoch, _MIXUP), samples, 3)
        share = np.where(u[:, 2] < self.p, symmetric_beta(self.alpha, u), 1).astype(np.float32)
        return MixParams(_before(n), share, np.zeros((n, 4), np.int32), share)


@dataclass(frozen=True)
class CutMix(BatchTransform):
    """Replace a box of the image by the same box of another image (Yun et al., 2019).

    The box has the image's aspect ratio. Its area, as a share of the image's and before the box is cut at the
    border, follows Beta(alpha, alpha); its centre is uniform. The label's share is that of the pixels.

    Args:
        alpha: Parameter of the Beta distribution; 1 for uniform shares.
        p: Probability that a sample is mixed.
    """

    alpha: float = 1.0
    p: float = added(1.0)

    columns: ClassVar[frozenset[str]] = frozenset({"label", "segmentation"})

    def __post_init__(self) -> None:
        self.check_positive("alpha")
        self.check_probability()

    def draw(self, samples: Samples, size: Size, seed: int, epoch: int) -> MixParams:
        """Decide for a batch; see :meth:`MixUp.draw`."""
        u = uniform(derive_key(seed, epoch, _CUTMIX), samples, 5)
        extent = np.array(size)
        center = (u[:, 2:4] * extent).astype(np.int64)
        half = (0.5 * np.sqrt(1 - symmetric_beta(self.alpha, u))[:, None] * extent).astype(np.int64)
        half[u[:, 4] >= self.p] = 0
        start, stop = np.maximum(center - half, 0), np.minimum(center + half, extent)
        box = np.concatenate((start, stop - start), axis=1).astype(np.int32)
        label_share = 1 - np.prod(stop - start, axis=1) / np.prod(extent)
        n = len(samples)
        return MixParams(_before(n), np.ones(n, np.float32), box, label_share.astype(np.float32))


def _before(n: int) -> npt.NDArray[np.int64]:
    return np.roll(np.arange(n, dtype=np.int64), 1)
