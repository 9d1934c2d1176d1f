"""What a transform of one's own must keep to, checked where it would otherwise show in pictures alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.augment.transforms.base import Size, Transform

__all__ = ["check_size"]


def check_size(transform: Transform, found: npt.NDArray[np.int64], size: Size | None) -> None:
    """ConfigError where images have sizes, (2, N), other than ``transform`` says; None for any."""
    if size is None:
        return
    differs = found != np.array(size)[:, None]
    if not differs.any():
        return
    height, width = found[:, differs.any(axis=0)][:, 0].tolist()
    raise ConfigError(
        f"{transform!r} made an image {height} x {width} pixels (height x width) "
        f"where its output_size says {size[0]} x {size[1]}",
        hint="Let output_size(size) give the size that params makes, or None where samples differ in it.",
    )
