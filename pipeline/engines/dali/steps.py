"""Steps on pixels as operators of DALI: what each is fed, and what it adds to the graph.

An operator runs on every sample of the batch. Where a step is not to be applied, it is fed numbers
that change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment.steps import Affine, Blur, Posterize, Sharpen, Solarize

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from stoker.augment.steps import Step
    from stoker.augment.transforms.base import Size

    Inputs = dict[str, npt.NDArray[Any]]
    Bool = npt.NDArray[np.bool_]
    # (name, dtype of DALI, dimensions of a sample) -> external source
    Source = Callable[[str, Any, int], Any]

__all__ = ["STEPS", "Signature", "add_step", "inputs_of", "mixed", "signature"]

Signature = tuple[str, tuple[int, ...], bool]
"""A step as the graph knows it: class, kernel size, whether it uses the mean."""

# Narrow enough that every weight but the central one is zero in float32.
_NO_BLUR = 1e-3
_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32)


def signature(step: Step) -> Signature:
    """What two steps share that the same operators execute."""
    kernel_size = step.kernel_size if isinstance(step, Blur) else ()
    return type(step).__name__, kernel_size, isinstance(step, Affine) and step.mean is not None


def inputs_of(step: Step, where: Bool) -> Inputs:
    """What the operators of a step are fed: (N, ...) by name.

    Args:
        step: The step, with N rows.
        where: (N,) bool, samples that it is applied to.
    """
    return _FEED[type(step).__name__](step, where)


def add_step(kind: Signature, image: Any, source: Source, size: Size, device: str) -> Any:
    """Add the operators of a step behind ``image``, (H, W, 3) uint8, and return what they leave.

    Args:
        kind: What the step is.
        image: Node of the graph.
        source: Makes an external source.
        size: Height and width of the image.
        device: Where it is, "cpu" or "gpu".
    """
    name, kernel_size, uses_mean = kind
    if name == "Blur":
        return _blur(image, source, kernel_size)
    if name == "Affine":
        return _rounded(mixed(image, source, uses_mean))
    if name == "Sharpen":
        return _sharpen(image, source, size, device) if min(size) > 2 else image
    return _ADD[name](image, source)


def mixed(image: Any, source: Source, uses_mean: bool) -> Any:
    """``color[:, :3] @ rgb + color[:, 3]``, plus ``mean @ m`` with m the image's mean RGB, in float32."""
    from nvidia.dali import fn, types

    values = fn.coord_transform(image, MT=source("color", types.FLOAT, 2), dtype=types.FLOAT)
    if not uses_mean:
        return values
    average = fn.reductions.mean(image, axes=(0, 1), keep_dims=True, dtype=types.FLOAT)
    return values + fn.coord_transform(average, M=source("mean", types.FLOAT, 2))


def _rounded(values: Any) -> Any:
    from nvidia.dali import fn, math, types

    return fn.cast(math.floor(math.clamp(values, 0.0, 255.0) + 0.5), dtype=types.UINT8)


def _chosen(image: Any, changed: Any, source: Source) -> Any:
    """``changed`` where the mask that is fed is 255, ``image`` where it is 0."""
    from nvidia.dali import types

    return image ^ ((image ^ changed) & source("where", types.UINT8, 0))


def _mask(where: Bool) -> npt.NDArray[np.uint8]:
    return np.where(where, 255, 0).astype(np.uint8)


def _feed_where(step: Step, where: Bool) -> Inputs:
    return {"where": _mask(where)}


def _feed_affine(step: Affine, where: Bool) -> Inputs:
    color = np.where(where[:, None, None], step.color, np.eye(3, 4, dtype=np.float32))
    if step.mean is None:
        return {"color": color}
    return {"color": color, "mean": np.where(where[:, None, None], step.mean, np.float32(0))}


def _feed_posterize(step: Posterize, where: Bool) -> Inputs:
    kept = (0xFF00 >> step.bits.astype(np.int64) & 0xFF).astype(np.uint8)
    return {"kept": np.where(where, kept, np.uint8(255))}


def _feed_solarize(step: Solarize, where: Bool) -> Inputs:
    return {"threshold": np.where(where, step.threshold, np.int16(256))}


def _feed_sharpen(step: Sharpen, where: Bool) -> Inputs:
    return {"smoothing": np.where(where, 1 - step.factor, np.float32(0))}


def _feed_blur(step: Blur, where: Bool) -> Inputs:
    return {"sigma": np.where(where[:, None], step.sigma, np.float32(_NO_BLUR))}


def _posterize(image: Any, source: Source) -> Any:
    from nvidia.dali import types

    return image & source("kept", types.UINT8, 0)


def _solarize(image: Any, source: Source) -> Any:
    from nvidia.dali import fn, types

    # 255 - x is x with all bits turned over.
    return image ^ fn.cast((image >= source("threshold", types.INT16, 0)) * 255, dtype=types.UINT8)


def _autocontrast(image: Any, source: Source) -> Any:
    from nvidia.dali import fn, math, types

    low = fn.cast(fn.reductions.min(image, axes=(0, 1), keep_dims=True), dtype=types.INT32)
    high = fn.cast(fn.reductions.max(image, axes=(0, 1), keep_dims=True), dtype=types.INT32)
    levels = fn.cast(image, dtype=types.INT32)
    span = high - low
    stretched = (levels - low) * 255 // math.max(span, 1) + (span == 0) * low
    return _chosen(image, fn.cast(stretched, dtype=types.UINT8), source)


def _equalize(image: Any, source: Source) -> Any:
    from nvidia.dali import fn

    return _chosen(image, fn.equalize(image), source)


def _sharpen(image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import fn, math, types

    kernel = types.Constant(value=_SMOOTH, dtype=types.FLOAT, device=device)
    smooth = math.floor((fn.filter(image, kernel, dtype=types.FLOAT) + 6.0) / 13.0)
    change = math.floor(source("smoothing", types.FLOAT, 0) * (smooth - image))
    sharp = fn.cast(math.clamp(image + change, 0.0, 255.0), dtype=types.UINT8)
    return image ^ ((image ^ sharp) & types.Constant(value=_inside(size), dtype=types.UINT8, device=device))


def _inside(size: Size) -> npt.NDArray[np.uint8]:
    """(H, W, 1), 255 but for 0 at the border."""
    mask = np.zeros((*size, 1), np.uint8)
    mask[1:-1, 1:-1] = 255
    return mask


def _blur(image: Any, source: Source, kernel_size: tuple[int, ...]) -> Any:
    from nvidia.dali import fn, types

    return fn.gaussian_blur(image, sigma=source("sigma", types.FLOAT, 1), window_size=list(kernel_size))


_FEED: dict[str, Callable[[Any, Bool], Inputs]] = {
    "Affine": _feed_affine,
    "Posterize": _feed_posterize,
    "Solarize": _feed_solarize,
    "Autocontrast": _feed_where,
    "Equalize": _feed_where,
    "Sharpen": _feed_sharpen,
    "Blur": _feed_blur,
}
_ADD: dict[str, Callable[[Any, Source], Any]] = {
    "Posterize": _posterize,
    "Solarize": _solarize,
    "Autocontrast": _autocontrast,
    "Equalize": _equalize,
}
STEPS = frozenset(_FEED)
"""Classes of steps that DALI's operators execute."""
