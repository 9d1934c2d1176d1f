"""MixUp and CutMix: samples of a batch mixed in pairs, with labels that are shares of classes.

As all transforms they only decide: :class:`MixParams` says which pairs and how much. They act on the
finished batch, after the engine.

Two things differ from torchvision.transforms.v2: every sample has a share of its own, keyed as all
random numbers are, where torchvision draws one for the batch; and labels come as integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from stoker.augment.random import derive_key, uniform
from stoker.augment.transforms.base import is_finite
from stoker.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

    Float = npt.NDArray[np.float64]
    Samples = npt.NDArray[np.int64]

__all__ = ["CutMix", "MixParams", "MixUp", "mix_images", "mix_labels"]

_MIXUP, _CUTMIX = -1, -2
"""Positions that key the random numbers: before those of any list of transforms."""


@dataclass(frozen=True)
class MixParams:
    """How N images and their labels are mixed with those of others in the batch.

    Attributes:
        partner: (N,) int64, position in the batch of the other sample.
        share: (N,) float32, weight of the image's own pixels, outside of ``box``.
        box: (N, 4) int32, top, left, height, width: where the partner's pixels replace the own ones.
        label_share: (N,) float32, weight of the own label.
    """

    partner: npt.NDArray[np.int64]
    share: npt.NDArray[np.float32]
    box: npt.NDArray[np.int32]
    label_share: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.partner)


@dataclass(frozen=True)
class MixUp:
    """Add two images, and their labels, in shares that follow Beta(alpha, alpha) (Zhang et al., 2018).

    Args:
        alpha: Parameter of the Beta distribution; 1 for uniform shares.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        _check_alpha(self, self.alpha)

    def draw(self, samples: Samples, size: tuple[int, int], seed: int, epoch: int) -> MixParams:
        """Decide for a batch: rows of its samples, (N,) int64, and ``size`` of its images.

        The partner is the sample before, as in torchvision, the last one for the first.
        """
        del size  # CutMix needs it; the two are called alike
        n = len(samples)
        share = _beta(self.alpha, uniform(derive_key(seed, epoch, _MIXUP), samples, 2)).astype(np.float32)
        return MixParams(_before(n), share, np.zeros((n, 4), np.int32), share)


@dataclass(frozen=True)
class CutMix:
    """Replace a box of the image by that of another (Yun et al., 2019).

    The box has the image's aspect ratio and an area whose share follows Beta(alpha, alpha) before it
    is cut at the border; its centre is uniform. The label's share is that of the pixels.

    Args:
        alpha: Parameter of the Beta distribution; 1 for uniform shares.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        _check_alpha(self, self.alpha)

    def draw(self, samples: Samples, size: tuple[int, int], seed: int, epoch: int) -> MixParams:
        """Decide for a batch; see :meth:`MixUp.draw`."""
        u = uniform(derive_key(seed, epoch, _CUTMIX), samples, 4)
        extent = np.array(size)
        center = (u[:, 2:] * extent).astype(np.int64)
        half = (0.5 * np.sqrt(1 - _beta(self.alpha, u))[:, None] * extent).astype(np.int64)
        start, stop = np.maximum(center - half, 0), np.minimum(center + half, extent)
        box = np.concatenate((start, stop - start), axis=1).astype(np.int32)
        label_share = 1 - np.prod(stop - start, axis=1) / np.prod(extent)
        n = len(samples)
        return MixParams(_before(n), np.ones(n, np.float32), box, label_share.astype(np.float32))


def mix_images(
    params: MixParams, images: npt.NDArray[np.floating], layout: Literal["NCHW", "NHWC", "NHWC4"] = "NCHW"
) -> npt.NDArray[np.floating]:
    """Mix a batch of images of a NumPy float type, (N, ...) as ``layout`` says; returns a new array."""
    other = images[params.partner]
    share = params.share.astype(np.float32)[:, None, None, None]
    mixed = (share * images + (1 - share) * other).astype(images.dtype)
    for i, (top, left, height, width) in enumerate(params.box.tolist()):
        rows, columns = slice(top, top + height), slice(left, left + width)
        box = (i, slice(None), rows, columns) if layout == "NCHW" else (i, rows, columns)
        mixed[box] = other[box]
    return mixed


def mix_labels(
    params: MixParams, labels: npt.NDArray[np.integer], num_classes: int
) -> npt.NDArray[np.float32]:
    """Soft labels, (N, num_classes) float32, whose rows sum to 1, of labels (N,) in 0..num_classes - 1.

    Raises:
        ConfigError: A label out of range.
    """
    outside = (labels < 0) | (labels >= num_classes)
    if outside.any():
        raise ConfigError(f"labels must lie within 0 to {num_classes - 1}; found {labels[outside][0]}")
    soft = np.zeros((len(labels), num_classes), np.float32)
    rows = np.arange(len(labels))
    soft[rows, labels] = params.label_share
    soft[rows, labels[params.partner]] += 1 - params.label_share
    return soft


def _before(n: int) -> npt.NDArray[np.int64]:
    return np.roll(np.arange(n, dtype=np.int64), 1)


def _beta(alpha: float, u: Float) -> Float:
    """Beta(alpha, alpha) of two uniform numbers a sample, exactly, without rejection.

    Accurate to 1e-16: smaller shares are zero. Source: Devroye, "Random variate generation in one line
    of code", Winter Simulation Conference 1996, the symmetric Beta; the sign is that of the cosine, of
    which the formula has the square.
    """
    cosine = np.cos(2 * np.pi * u[:, 1])
    with np.errstate(over="ignore", divide="ignore"):  # infinite for a small alpha: the share is 0 or 1
        odds = ((1 - u[:, 0]) ** (-1 / alpha) - 1) * cosine**2
        return np.asarray(0.5 + 0.5 * np.sign(cosine) / np.sqrt(1 + 1 / odds))


def _check_alpha(transform: object, alpha: object) -> None:
    if not (is_finite(alpha) and alpha > 0):  # type: ignore[operator]  # a number
        raise ConfigError(f"{type(transform).__name__}: alpha must be a positive number; found {alpha!r}")
