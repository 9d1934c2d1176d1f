"""Operations that several parts of a pipeline are made of, in operators that DALI has on CPUs and GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker.types import Size

# (name, dtype of DALI, dimensions of a sample) -> external source
Source = Callable[[str, Any, int], Any]


def mixed(image: Any, source: Source, uses_mean: bool) -> Any:
    """``color[:, :3] @ rgb + color[:, 3]``, plus ``mean @ m`` with m the image's mean RGB, in float32."""
    from nvidia.dali import fn, types

    values = fn.coord_transform(image, MT=source("color", types.FLOAT, 2), dtype=types.FLOAT)
    if not uses_mean:
        return values
    average = fn.reductions.mean(image, axes=(0, 1), keep_dims=True, dtype=types.FLOAT)
    return values + fn.coord_transform(average, M=source("mean", types.FLOAT, 2))


def rounded(values: Any) -> Any:
    """The floats as uint8, rounded half up and clipped to 0..255."""
    from nvidia.dali import fn, math, types

    # ``cast`` rounds as well, but slowly on a CPU, and half to even on a GPU; it clips on both.
    return fn.cast(math.floor(values + 0.5), dtype=types.UINT8)


def warped(image: Any, matrix: Any, size: Size, fill: Sequence[int], *, nearest: bool = False) -> Any:
    """The image resampled by a (3, 3) matrix from points of the output, (x, y, 1), to points of the image.

    Bilinear, or the nearest pixel. ``warp_affine`` would do for affine matrices, but takes five times as long
    on a CPU.
    """
    from nvidia.dali import fn, types

    return fn.experimental.warp_perspective(
        image,
        matrix=matrix,
        inverse_map=True,
        size=list(size),
        fill_value=list(fill),
        interp_type=types.INTERP_NN if nearest else types.INTERP_LINEAR,
        pixel_origin="corner",
    )
