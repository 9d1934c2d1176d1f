"""Transforms of whole batches, MixUp and CutMix, and a function of the user; a loader applies them last.

They mix the samples of the finished batch in pairs. Unlike in torchvision.transforms.v2 (0.29), each sample
draws a share, and a probability may leave samples as they are. timm's
``Mixup(mixup_alpha, cutmix_alpha, prob=p, switch_prob=s)`` is a
``RandomChoice([MixUp(mixup_alpha, p), CutMix(cutmix_alpha, p)], p=[1 - s, s])``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.random import derive_key, uniform
from stoker.types import DType, Layout, Size

from .steps import convert
from .transforms.base import Description, added, symmetric_beta

Samples = npt.NDArray[np.int64]

_MIXUP, _CUTMIX = -1, -2
"""Positions for ``derive_key``, below the positions in any list of transforms."""


@dataclass(frozen=True)
class MixParams:
    """How N images and their labels are mixed with other samples of the batch."""

    partner: npt.NDArray[np.int64]  # (N,) int64, index in the batch of the other sample
    share: npt.NDArray[np.float32]  # (N,) float32, weight of the image's own pixels, outside of ``box``
    # (N, 4) int32, top, left, height, width of the box in which the partner's pixels replace the image's own
    box: npt.NDArray[np.int32]
    label_share: npt.NDArray[np.float32]  # (N,) float32, weight of the sample's own label

    def __len__(self) -> int:
        return len(self.partner)

    def images(self, images: npt.NDArray[Any], layout: Layout = "NCHW") -> npt.NDArray[Any]:
        """Mixed images, (N, ...) uint8 or floats, computed in float32; uint16 holds the bits of bfloat16."""
        mixed: npt.NDArray[Any] = images.copy()
        for i in np.flatnonzero(self.share < 1).tolist():
            first, second = (_float32(images[k]) for k in (i, self.partner[i]))
            values = self.share[i] * first + (1 - self.share[i]) * second
            dtype = "bfloat16" if images.dtype == np.uint16 else images.dtype.name
            mixed[i] = convert(values, cast("DType", dtype))
        for i, rows, columns in self._boxes():
            box = np.s_[:, rows, columns] if layout == "NCHW" else np.s_[rows, columns]
            mixed[i][box] = images[self.partner[i]][box]
        return mixed

    def labels(self, labels: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.float32]:
        """Soft labels, (N, num_classes), in the shares of ``label_share``."""
        soft = one_hot(labels, num_classes)
        share = self.label_share[:, None]
        return np.asarray(share * soft + (1 - share) * soft[self.partner])

    def segmentation(self, masks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Class masks, (N, H, W), in which CutMix replaces the same boxes as in images."""
        mixed: npt.NDArray[Any] = masks.copy()
        for i, rows, columns in self._boxes():
            mixed[i, rows, columns] = masks[self.partner[i], rows, columns]
        return mixed

    def _boxes(self) -> list[tuple[int, slice, slice]]:
        boxes = enumerate(self.box.tolist())
        return [(i, slice(top, top + h), slice(left, left + w)) for i, (top, left, h, w) in boxes]


@dataclass(frozen=True)
class BatchTransform(Description):
    """Base of the transforms that mix the samples of a batch.

    Args:
        alpha: Parameter of the Beta distribution of the shares, more than 0; 1 for uniform shares.
        p: Probability that a sample is mixed.
    """

    alpha: float = 1.0
    p: float = added(1.0)

    columns: ClassVar[frozenset[str]] = frozenset()  # besides "image": "label", "segmentation" or both

    def __post_init__(self) -> None:
        self.check_positive("alpha")
        self.check_probability()

    def draw(self, samples: Samples, size: Size, seed: int, epoch: int) -> MixParams:
        """Decide for a batch of ``samples``, (N,) int64 as for ``ImagePlan.draw``, in images of ``size``."""
        raise NotImplementedError


@dataclass(frozen=True)
class MixUp(BatchTransform):
    """Add two images of a batch, and their labels, in shares of Beta(alpha, alpha) (Zhang et al., 2018).

    The partner is the sample before, as in torchvision; the partner of the first sample is the last one.
    :class:`DetectionMixUp` blends images with boxes instead: its partner comes from the whole epoch, the
    engine blends the two, and the objects of both stay. It takes the arguments of :class:`BatchTransform`.
    """

    columns: ClassVar[frozenset[str]] = frozenset({"label"})

    def draw(self, samples: Samples, size: Size, seed: int, epoch: int) -> MixParams:
        u = uniform(derive_key(seed, epoch, _MIXUP), samples, 3)
        share = np.where(u[:, 2] < self.p, symmetric_beta(self.alpha, u), 1).astype(np.float32)
        return MixParams(
            np.roll(np.arange(len(samples)), 1), share, np.zeros((len(samples), 4), np.int32), share
        )


@dataclass(frozen=True)
class CutMix(BatchTransform):
    """Replace a box of the image by the same box of another image (Yun et al., 2019).

    The box has the image's aspect ratio. Its area, as a share of the image's and before the box is cut at the
    border, follows Beta(alpha, alpha); its centre is uniform. The label's share is the share of pixels.
    It takes the arguments of :class:`BatchTransform`.
    """

    columns: ClassVar[frozenset[str]] = frozenset({"label", "segmentation"})

    def draw(self, samples: Samples, size: Size, seed: int, epoch: int) -> MixParams:
        u = uniform(derive_key(seed, epoch, _CUTMIX), samples, 5)
        extent = np.array(size)
        center = (u[:, 2:4] * extent).astype(np.int64)
        half = (0.5 * np.sqrt(1 - symmetric_beta(self.alpha, u))[:, None] * extent).astype(np.int64)
        half[u[:, 4] >= self.p] = 0
        start, stop = np.maximum(center - half, 0), np.minimum(center + half, extent)
        box = np.concatenate((start, stop - start), axis=1).astype(np.int32)
        label_share = 1 - np.prod(stop - start, axis=1) / np.prod(extent)
        n = len(samples)
        return MixParams(
            np.roll(np.arange(n), 1), np.ones(n, np.float32), box, label_share.astype(np.float32)
        )


@dataclass(frozen=True)
class AllColumns:
    """A function of your own that takes a whole batch, at the end of a loader's transforms.

    ``function(batch)`` gets the named tuple that the loader would return, in the framework's arrays, and
    returns it with changed columns: ``batch._replace(image=..., boxes=...)``. It runs on the loader's
    background thread. ``loader.element_spec()`` describes the columns before it.

    Args:
        function: The function. States of loaders hold its name.
    """

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise ConfigError(
                f"AllColumns takes a function of a batch, found {self.function!r}",
                hint="Write AllColumns(change), where change(batch) returns batch._replace(...).",
            )

    def __call__(self, batch: Any) -> Any:
        """The batch that the function returns; ConfigError if it returns something else."""
        changed = self.function(batch)
        if type(changed) is not type(batch):
            name = getattr(self.function, "__qualname__", repr(self.function))
            raise ConfigError(
                f"{name} must return the batch, a named tuple with the columns {', '.join(batch._fields)}, "
                f"found {type(changed).__name__}",
                hint="Return batch._replace(image=...), or the batch itself.",
            )
        return changed


def one_hot(labels: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.float32]:
    """Labels, (N,) integers, as (N, num_classes) float32; labels of that shape stay."""
    if labels.ndim == 2 and labels.shape[1] == num_classes:
        return labels.astype(np.float32)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise ConfigError(
            f"labels must be (N,) integers or (N, {num_classes}), found {labels.dtype} of {labels.shape}"
        )
    outside = (labels < 0) | (labels >= num_classes)
    if outside.any():
        raise ConfigError(f"labels must be within 0 to {num_classes - 1}, found {labels[outside][0]}")
    hot = np.zeros((len(labels), num_classes), np.float32)
    hot[np.arange(len(labels)), labels] = 1
    return hot


def _float32(pixels: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Pixels of any dtype as float32; uint16 has the bits of bfloat16."""
    if pixels.dtype == np.uint16:
        return (pixels.astype(np.uint32) << 16).view(np.float32)
    return pixels.astype(np.float32, copy=False)
