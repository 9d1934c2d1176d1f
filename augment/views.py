"""Views, which are several images of each sample in one column, and masks of their patches."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.random import bits, derive_key, hash_words, sequence, uniform, unit_interval
from stoker.types import Size

from .transforms.base import Description, Float, between

Bools = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

_ATTEMPTS = 10
_POSITION = -4
"""Position for ``derive_key``, below the positions of all transforms."""


@dataclass(frozen=True)
class PatchMask(Description):
    """Base of masks of patches, which are squares of ``patch`` pixels a side, as in a vision transformer.

    Args:
        patch: Height and width of a patch, pixels; it must divide the image's height and width.
    """

    patch: int

    def grid(self, size: Size) -> Size:
        """Rows and columns of patches in an image of ``size``; ConfigError where they do not divide it."""
        if size[0] % self.patch or size[1] % self.patch:
            raise ConfigError(
                f"{type(self).__name__}: patches of {self.patch} pixels do not divide an image of "
                f"{size[0]} x {size[1]} pixels (height x width)",
                hint="Choose a size of the image that is a multiple of patch.",
            )
        return size[0] // self.patch, size[1] // self.patch

    def draw(self, keys: Int64, size: Size, seed: int, epoch: int) -> Bools:
        """Draw masks, (N, rows, columns) bool, True for hidden patches, of images of ``keys``, (N,) int64."""
        raise NotImplementedError


@dataclass(frozen=True)
class RandomMask(PatchMask):
    """Hide a share of the patches, each as likely as any other (MAE, He et al., 2022).

    Args:
        patch: Height and width of a patch, pixels.
        ratio: Share of the patches that is hidden, 0 to 1. Their number is rounded up: MAE keeps
            ``int(patches * (1 - ratio))``.
    """

    ratio: float = 0.75

    def __post_init__(self) -> None:
        self.set_whole("patch")
        self.check_number("ratio", "a share, 0 to 1", 0, 1)

    def draw(self, keys: Int64, size: Size, seed: int, epoch: int) -> Bools:
        grid = self.grid(size)
        noise = uniform(derive_key(seed, epoch, _POSITION), keys, math.prod(grid))
        ranks = np.argsort(np.argsort(noise, axis=1, kind="stable"), axis=1)
        kept = int(math.prod(grid) * (1 - self.ratio))
        return np.asarray(ranks >= kept).reshape(-1, *grid)


@dataclass(frozen=True)
class BlockwiseMask(PatchMask):
    """Hide rectangles of patches until a share is hidden.

    Source: iBOT (Zhou et al., 2022), after BEiT (Bao et al., 2022). An image is masked with probability
    ``p``, and its share is uniform in ``ratio``. Rectangles are drawn one after the other. A rectangle that
    would exceed the share is drawn again, at most ten times; then the mask stays as it is.

    Args:
        patch: Height and width of a patch, pixels.
        ratio: Least and largest share of patches to hide, 0 to 1.
        p: Probability that an image is masked; others have no hidden patch.
        least: Smallest area of a rectangle, in patches. None takes a ninth of a square in the image, as iBOT.
        aspect: Least and largest ratio of a rectangle's height to its width.
    """

    ratio: tuple[float, float] = (0.1, 0.5)
    p: float = 0.5
    least: int | None = None
    aspect: tuple[float, float] = (0.3, 1 / 0.3)

    def __post_init__(self) -> None:
        self.set_whole("patch")
        self.set_range("ratio", 0, 1, "two shares, 0 to 1, ascending")
        self.check_probability()
        self.set_whole("least", optional=True)
        self.set_range("aspect", 1e-3, 1e3, "two positive ratios, ascending")

    def draw(self, keys: Int64, size: Size, seed: int, epoch: int) -> Bools:
        grid = self.grid(size)
        # Each image has its own sequence: two numbers decide the share, and four decide each rectangle.
        states = bits(derive_key(seed, epoch, _POSITION), keys, 1)[:, 0]
        first = _numbers(states, np.arange(2))
        share = between(self.ratio, first[:, 1])
        wanted = np.where(first[:, 0] < self.p, share * math.prod(grid), 0.0)
        masks = np.zeros((len(keys), *grid), np.bool_)
        failures = np.zeros(len(keys), np.int64)
        active = np.flatnonzero(wanted >= 1)
        attempt = 0
        while len(active):
            u = _numbers(states[active], 2 + 4 * attempt + np.arange(4))
            left = wanted[active] - masks[active].sum(axis=(1, 2))
            rectangles, fits = self._rectangles(u, left, grid)
            new = (rectangles & ~masks[active]).sum(axis=(1, 2))
            good = fits & (new > 0) & (new <= left)
            masks[active[good]] |= rectangles[good]
            failures[active] = np.where(good, 0, failures[active] + 1)
            missing = wanted[active] - masks[active].sum(axis=(1, 2))
            active = active[(failures[active] < _ATTEMPTS) & (missing > 0)]
            attempt += 1
        return masks

    def _rectangles(self, u: Float, left: Float, grid: Size) -> tuple[Bools, Bools]:
        """Rectangles of at most ``left``, (N,), patches, (N, rows, columns); and whether each fits, (N,)."""
        least = (min(grid) // 3) ** 2 if self.least is None else self.least
        area = least + u[:, 0] * (left - least)
        aspect = np.exp(between(np.log(self.aspect), u[:, 1]))
        extent = np.rint(np.sqrt(np.maximum(area, 0)[:, None] * np.stack((aspect, 1 / aspect), axis=1)))
        room = np.array(grid) - extent
        start = np.floor(u[:, 2:] * (room + 1))
        inside = [
            (np.arange(n) >= start[:, axis, None]) & (np.arange(n) < (start + extent)[:, axis, None])
            for axis, n in enumerate(grid)
        ]
        return inside[0][:, :, None] & inside[1][:, None, :], np.asarray((room > 0).all(axis=1))


def _numbers(states: npt.NDArray[np.uint64], indices: Int64) -> Float:
    """Random numbers in [0, 1), (N, K), at K indices of the sequences that start at ``states``, (N,)."""
    return unit_interval(sequence(states[:, None], indices))


@dataclass(frozen=True)
class Views(Description):
    """Several views of each sample: images of one size by the same transforms, each drawn independently.

    A loader returns them as one column, (count, N, 3, H, W): ``column[0]`` is the batch of the first views.

    Args:
        count: Views of each sample, from 1. None for one image without an axis of views, (N, 3, H, W), as a
            list of transforms makes it.
        transforms: Transforms of images; all images must leave them in one size. Transforms of batches and
            your own functions cannot be among them.
        mask: Patches to hide in each view, such as :class:`BlockwiseMask`; None for none. The masks are a
            separate column, ``<name>_mask``, (count, N, rows, columns) bool, True for a hidden patch.
    """

    count: int | None
    transforms: Sequence[Description]
    mask: PatchMask | None = None

    def __post_init__(self) -> None:
        self.set_whole("count", optional=True)
        is_list = isinstance(self.transforms, Sequence) and not isinstance(self.transforms, str)
        self.check("transforms", is_list, "a list of transforms")
        is_mask = self.mask is None or isinstance(self.mask, PatchMask)
        self.check("mask", is_mask, "a BlockwiseMask, a RandomMask or None")
        self.set("transforms", tuple(self.transforms))


def view_keys(keys: npt.NDArray[np.int64], name: str, count: int) -> npt.NDArray[np.int64]:
    """Keys of the random numbers of all views of N samples, (count * N,) int64, view by view."""
    # A view draws the same parameters with any other views beside it.
    word = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    drawn = [hash_words((word, view), keys) for view in range(count)]
    return np.concatenate(drawn).view(np.int64)
