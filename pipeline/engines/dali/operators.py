"""Operations that several parts of the graph are made of, in DALI's operators for either device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stoker.augment.transforms.base import Size

    # (name, dtype of DALI, dimensions of a sample) -> external source
    Source = Callable[[str, Any, int], Any]

__all__ = ["mixed", "rounded", "warped"]


def mixed(image: Any, source: Source, uses_mean: bool) -> Any:
    """``color[:, :3] @ rgb + color[:, 3]``, plus ``mean @ m`` with m the image's mean RGB, in float32."""
    from nvidia.dali import fn, types

    values = fn.coord_transform(image, MT=source("color", types.FLOAT, 2), dtype=types.FLOAT)
    if not uses_mean:
        return values
    average = fn.reductions.mean(image, axes=(0, 1), keep_dims=True, dtype=types.FLOAT)
    return values + fn.coord_transform(average, M=source("mean", types.FLOAT, 2))


def rounded(values: Any) -> Any:
    """Floats as uint8, rounded half up and clipped."""
    from nvidia.dali import fn, math, types

    # ``cast`` rounds, too, but slowly on a CPU, and half to even on a GPU; it clips on both.
    return fn.cast(math.floor(values + 0.5), dtype=types.UINT8)


def warped(image: Any, matrix: Any, size: Size, fill: Sequence[int], *, nearest: bool = False) -> Any:
    """The image resampled through the (3, 3) matrix that leads from the output to it; bilinearly, or picked.

    DALI's ``warp_affine`` does the same, where a matrix is affine, in five times the time on a CPU.
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
