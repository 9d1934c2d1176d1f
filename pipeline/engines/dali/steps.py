"""Steps on pixels as operators of DALI: what each is fed, and what it adds to the graph.

The operators of a step run on those samples of a batch that it is applied to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment.steps import Affine, Blur, Mix, Shift

from .operators import mixed, rounded, warped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from stoker.augment.steps import Posterize, Step
    from stoker.augment.transforms.base import Size

    from .operators import Source

    Inputs = dict[str, npt.NDArray[Any]]
    Bool = npt.NDArray[np.bool_]

__all__ = ["STEPS", "StepSignature", "add_steps", "inputs_of", "signatures_of"]

_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32)


@dataclass(frozen=True)
class StepSignature:
    """A step as the graph knows it: what two steps share that the same operators execute.

    Attributes:
        name: Class of the step.
        kernel_size: Of a Blur.
        uses_mean: Whether an Affine does.
        fill: Of a Shift.
        nearest: Whether a Shift is.
        chains: Of a Mix.
    """

    name: str
    kernel_size: tuple[int, ...] = ()
    uses_mean: bool = False
    fill: tuple[int, ...] = ()
    nearest: bool = False
    chains: tuple[tuple[StepSignature, ...], ...] = ()


def signatures_of(steps: Iterable[Step]) -> tuple[StepSignature, ...]:
    """What the graph must know of the steps."""
    return tuple(map(_signature, steps))


def _signature(step: Step) -> StepSignature:
    return StepSignature(
        type(step).__name__,
        kernel_size=step.kernel_size if isinstance(step, Blur) else (),
        uses_mean=isinstance(step, Affine) and step.mean is not None,
        fill=step.fill if isinstance(step, Shift) else (),
        nearest=isinstance(step, Shift) and step.nearest,
        chains=tuple(map(signatures_of, step.chains)) if isinstance(step, Mix) else (),
    )


def inputs_of(steps: Iterable[Step], good: Bool) -> Inputs:
    """What the operators of the steps are fed: (N, ...) by name.

    Args:
        steps: Steps with N rows.
        good: (N,) bool, samples that are none but a black pixel are False.
    """
    feeds: Inputs = {}
    for position, step in enumerate(steps):
        named = {"where": step.where & good, **_FEED[type(step).__name__](step)}
        if isinstance(step, Mix):
            for number, chain in enumerate(step.chains):
                named |= {f"{number}.{name}": values for name, values in inputs_of(chain, good).items()}
        feeds |= {f"{position}.{name}": values for name, values in named.items()}
    return feeds


def add_steps(
    signatures: Iterable[StepSignature], image: Any, source: Source, size: Size, device: str
) -> Any:
    """Add the operators of steps behind ``image``, (H, W, 3) uint8, and return what they leave.

    Args:
        signatures: What the steps are, in order.
        image: Node of a graph with conditionals.
        source: Makes an external source.
        size: Height and width of the image.
        device: Where it is, "cpu" or "gpu".
    """
    from nvidia.dali import types

    for position, signature in enumerate(signatures):
        own = _within(f"{position}.", source)
        if own("where", types.BOOL, 0):  # DALI makes of this that the rest of the batch passes by
            image = _ADD[signature.name](signature, image, own, size, device)
    return image


def _within(prefix: str, source: Source) -> Source:
    return lambda name, dtype, ndim: source(prefix + name, dtype, ndim)


def _posterize(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import types

    return image & source("kept", types.UINT8, 0)


def _solarize(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import types

    # 255 - x is x with all bits turned over.
    return image ^ ((image >= source("threshold", types.INT16, 0)) * types.Constant(255, types.UINT8))


def _affine(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    return rounded(mixed(image, source, signature.uses_mean))


def _shift(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import types

    return warped(image, source("matrix", types.FLOAT, 2), size, signature.fill, nearest=signature.nearest)


def _autocontrast(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import fn, math, types

    low = fn.cast(fn.reductions.min(image, axes=(0, 1), keep_dims=True), dtype=types.INT32)
    span = fn.reductions.max(image, axes=(0, 1), keep_dims=True) - low
    return fn.cast((image - low) * 255 // math.max(span, 1) + (span == 0) * low, dtype=types.UINT8)


def _equalize(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    """DALI's level x is ``255 * (c(x) - c(lowest)) / (c(255) - c(lowest))`` with c the cumulated histogram.

    Of the inverted image that is 255 less ``255 * c(x - 1) / c(highest - 1)``, from which Pillow's
    follows: ``(c(x - 1) + step // 2) // step`` with ``step = c(highest - 1) // 255``.
    """
    from nvidia.dali import fn, math, types

    full = types.Constant(255, types.UINT8)
    lower = (image < fn.reductions.max(image, axes=(0, 1), keep_dims=True)) * types.Constant(1, types.UINT8)
    below = fn.cast(fn.reductions.sum(lower, axes=(0, 1), keep_dims=True), dtype=types.INT32)
    step = below // 255
    factor = below / (255.0 * math.max(step, 1))
    levels = rounded(255.0 * factor - fn.equalize(image ^ full) * factor)
    return image ^ ((image ^ levels) & ((step > 0) * full))


def _sharpen(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import fn, math, types

    kernel = types.Constant(value=_SMOOTH, dtype=types.FLOAT, device=device)
    smooth = math.floor((fn.filter(image, kernel, dtype=types.FLOAT) + 6.0) / 13.0)
    change = math.floor(source("smoothing", types.FLOAT, 0) * (smooth - image))
    sharp = fn.cast(image + change, dtype=types.UINT8)
    return image ^ ((image ^ sharp) & types.Constant(value=_inside(size), dtype=types.UINT8, device=device))


def _inside(size: Size) -> npt.NDArray[np.uint8]:
    """(H, W, 1), 255 but for 0 at the border."""
    mask = np.zeros((*size, 1), np.uint8)
    mask[1:-1, 1:-1] = 255
    return mask


def _blur(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import fn, types

    return fn.gaussian_blur(
        image, sigma=source("sigma", types.FLOAT, 1), window_size=list(signature.kernel_size)
    )


def _mix(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import types

    total = image * source("weight", types.FLOAT, 0)
    for number, chain in enumerate(signature.chains):
        own = _within(f"{number}.", source)
        total += add_steps(chain, image, own, size, device) * own("weight", types.FLOAT, 0)
    return rounded(total)


def _feed_affine(step: Affine) -> Inputs:
    return {"color": step.color} if step.mean is None else {"color": step.color, "mean": step.mean}


def _feed_posterize(step: Posterize) -> Inputs:
    return {"kept": (0xFF00 >> step.bits.astype(np.int64) & 0xFF).astype(np.uint8)}


def _feed_mix(step: Mix) -> Inputs:
    own, *chains = step.weights.T
    return {"weight": own} | {f"{number}.weight": weight for number, weight in enumerate(chains)}


def _feed_nothing(step: Step) -> Inputs:
    return {}


_FEED: dict[str, Callable[[Any], Inputs]] = {
    "Affine": _feed_affine,
    "Posterize": _feed_posterize,
    "Solarize": lambda step: {"threshold": step.threshold},
    "Autocontrast": _feed_nothing,
    "Equalize": _feed_nothing,
    "Sharpen": lambda step: {"smoothing": 1 - step.factor},
    "Blur": lambda step: {"sigma": step.sigma},
    "Shift": lambda step: {"matrix": step.matrix.astype(np.float32)},
    "Mix": _feed_mix,
}
_ADD: dict[str, Callable[[StepSignature, Any, Source, Size, str], Any]] = {
    "Affine": _affine,
    "Posterize": _posterize,
    "Solarize": _solarize,
    "Autocontrast": _autocontrast,
    "Equalize": _equalize,
    "Sharpen": _sharpen,
    "Blur": _blur,
    "Shift": _shift,
    "Mix": _mix,
}
STEPS = frozenset(_FEED)
"""Classes of steps that DALI's operators execute."""
