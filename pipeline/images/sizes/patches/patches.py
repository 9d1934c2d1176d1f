"""Patches of images at their own aspect ratios: the argument of a loader, and the resize before patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.augment.state import TransformState
from stoker.augment.transforms.base import Transform
from stoker.errors import ConfigError
from stoker.types import Size

from ...batch_transforms import Transforms

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Patches:
    """Packed rows of patches of images at their own aspect ratios (NaFlex, SigLIP 2, Tschannen et al., 2025).

    Each image is resized, up or down, to the largest whole number of patches within ``most``. With a scale s,
    an image of H x W pixels has ceil(s * H / size) x ceil(s * W / size) patches; s is the largest at which
    these are at most ``most``. This is the rule of SigLIP 2's image processor in transformers 5.23, which
    searches s in steps of 1e-5. Here the numbers are exact.

    Args:
        size: Side of a patch, pixels.
        most: Largest number of patches of an image.
        row: Patches of a packed row, at least ``most``.
    """

    size: int = 16
    most: int = 256
    row: int = 1024

    def __post_init__(self) -> None:
        for name in ("size", "most", "row"):
            object.__setattr__(self, name, whole_number(f"Patches: {name}", getattr(self, name), 1))
        if self.row < self.most:
            raise ConfigError(
                f"Patches: a row of {self.row} patches holds no image of most={self.most}",
                hint=f"Give a row of at least {self.most}, such as {4 * self.most}.",
            )


@dataclass(frozen=True)
class ResizeToPatches(Transform):
    """Resize an image to at most ``most`` whole patches; see :class:`Patches`."""

    size: int
    most: int

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """See :class:`Transform`."""
        state.resize(patch_grids(state.size.T, self.most).T * self.size, "bilinear")

    def output_size(self, size: Size | None) -> Size | None:
        """See :class:`Transform`: None, for sizes differ from sample to sample."""
        return None


def patch_grids(sizes: Int64, most: int) -> Int64:
    """Rows and columns of patches of images, (N, 2), by the rule of :class:`Patches`.

    ``a`` rows and at most ``most // a`` columns are possible if ``W * (a - 1) < H * (most // a)``: at the
    scale of ``most // a`` columns the image has more than ``a - 1`` rows. The largest such ``a`` is found by
    bisection, because both sides of the inequality are monotone.
    """
    # sizes (N, 2) int64
    height, width = sizes[:, 0].astype(np.int64), sizes[:, 1].astype(np.int64)
    possible, above = np.ones_like(height), np.full_like(height, most + 1)
    while (above - possible > 1).any():
        middle = (possible + above) // 2
        fits = width * (middle - 1) < height * (most // middle)
        possible, above = np.where(fits, middle, possible), np.where(fits, above, middle)
    columns = np.minimum(-(-width * possible // height), most // possible)
    return np.stack([possible, columns], axis=1)


def resize_to_patches(transforms: Transforms, patches: Patches) -> Transforms:
    """The same transforms after the resize to patches."""
    if isinstance(transforms, Mapping):
        return transforms  # refused with other sizes
    for one in transforms if isinstance(transforms, Sequence) else ():
        if not isinstance(one, Transform):
            continue
        if one.warps or any(one.output_size(size) != size for size in _PROBES):
            does = "warps images" if one.warps else "changes the size of images"
            raise ConfigError(
                f"sizes: {type(one).__name__} {does}, which Patches cannot have",
                hint="Leave it out. Flips, colours, RandomErasing and Normalize go with patches.",
            )
    return [ResizeToPatches(patches.size, patches.most), *transforms]


_PROBES = ((1021, 509), (509, 1021))  # sizes that no transform has by chance
