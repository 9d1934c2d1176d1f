"""Steps on pixels as operators of DALI: the inputs of each step, and the nodes that it adds to a pipeline.

A step runs on those samples of a batch that it is applied to; a conditional of DALI skips it for the others.
A new step is a row of ``_OPERATORS``, with functions that feed arrays of the step and add its nodes. An
argument that is fixed when a pipeline is built, such as the size of a kernel, goes to ``options`` of the row.
The last node of a step must be uint8, as the next step takes it; ``fn.cast`` to uint8 saturates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.steps import (
    Affine,
    Autocontrast,
    Blur,
    Compress,
    Distort,
    Equalize,
    Posterize,
    Sharpen,
    Solarize,
    Step,
    WeightedSum,
)
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
    """The image resampled by a (3, 3) matrix from points of the output, (x, y, 1), to points of the image."""
    # Bilinear, or the nearest pixel. ``warp_affine`` would do for affine matrices, but takes five times as
    # long on a CPU.
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


Inputs = dict[str, npt.NDArray[Any]]
Bool = npt.NDArray[np.bool_]

_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32)


@dataclass(frozen=True)
class StepSignature:
    """What decides the nodes of a step: steps with equal signatures share a pipeline."""

    step: type[Step]  # Class of the step
    # Values that are fixed when the pipeline is built; each row of ``_OPERATORS`` has its own
    options: tuple[Any, ...] = ()
    chains: tuple[tuple[StepSignature, ...], ...] = ()  # Signatures of each chain of a WeightedSum


def signatures_of(steps: Iterable[Step]) -> tuple[StepSignature, ...]:
    return tuple(map(_signature, steps))


def _signature(step: Step) -> StepSignature:
    return StepSignature(
        type(step),
        options=_OPERATORS[type(step)].options(step),
        chains=tuple(map(signatures_of, step.chains)) if isinstance(step, WeightedSum) else (),
    )


def inputs_of(steps: Iterable[Step], good: Bool) -> Inputs:
    """Inputs of the operators of steps, (N, ...) by the name of their external source."""
    # good (N,) bool
    feeds: Inputs = {}
    for index, step in enumerate(steps):
        step_feeds = {"where": step.where & good, **_OPERATORS[type(step)].inputs(step)}
        if isinstance(step, WeightedSum):
            for number, chain in enumerate(step.chains):
                step_feeds |= {f"{number}.{name}": values for name, values in inputs_of(chain, good).items()}
        feeds |= {f"{index}.{name}": values for name, values in step_feeds.items()}
    return feeds


def add_steps(
    signatures: Iterable[StepSignature], image: Any, source: Source, size: Size, device: str
) -> Any:
    from nvidia.dali import types

    for index, signature in enumerate(signatures):
        step_source = prefixed(f"{index}.", source)
        if step_source("where", types.BOOL, 0):  # a conditional of DALI, which splits the batch
            image = _OPERATORS[signature.step].add(signature, image, step_source, size, device)
    return image


def prefixed(prefix: str, source: Source) -> Source:
    """A source of inputs whose names begin with ``prefix``."""
    return lambda name, dtype, ndim: source(prefix + name, dtype, ndim)


def _posterize(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import types

    return image & source("kept", types.UINT8, 0)


def _solarize(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import types

    # 255 - x is x with all bits turned over.
    return image ^ ((image >= source("threshold", types.INT16, 0)) * types.Constant(255, types.UINT8))


def _affine(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    return rounded(mixed(image, source, *signature.options))


def _distort(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import types

    fill, nearest = signature.options
    return warped(image, source("matrix", types.FLOAT, 2), size, fill, nearest=nearest)


def _autocontrast(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import fn, math, types

    low = fn.cast(fn.reductions.min(image, axes=(0, 1), keep_dims=True), dtype=types.INT32)
    span = fn.reductions.max(image, axes=(0, 1), keep_dims=True) - low
    return fn.cast((image - low) * 255 // math.max(span, 1) + (span == 0) * low, dtype=types.UINT8)


def _equalize(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    """Pillow's equalization out of DALI's."""
    # DALI's level x is ``255 * (c(x) - c(lowest)) / (c(255) - c(lowest))`` with c the cumulative histogram.
    #
    # For the inverted image that is 255 less ``255 * c(x - 1) / c(highest - 1)``, from which Pillow's
    # follows: ``(c(x - 1) + step // 2) // step`` with ``step = c(highest - 1) // 255``.
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

    return fn.gaussian_blur(image, sigma=source("sigma", types.FLOAT, 1), window_size=list(signature.options))


def _compress(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import fn, types

    return fn.jpeg_compression_distortion(image, quality=source("quality", types.INT32, 0))


def _weighted_sum(signature: StepSignature, image: Any, source: Source, size: Size, device: str) -> Any:
    from nvidia.dali import types

    total = image * source("weight", types.FLOAT, 0)
    for number, chain in enumerate(signature.chains):
        chain_source = prefixed(f"{number}.", source)
        image_of_chain = add_steps(chain, image, chain_source, size, device)
        total += image_of_chain * chain_source("weight", types.FLOAT, 0)
    return rounded(total)


def _affine_inputs(step: Affine) -> Inputs:
    mean = {} if step.mean_matrix is None else {"mean": step.mean_matrix}
    return {"color": step.color} | mean


def _weighted_sum_inputs(step: WeightedSum) -> Inputs:
    of_image, *of_chains = step.weights.T
    return {"weight": of_image} | {f"{number}.weight": weight for number, weight in enumerate(of_chains)}


@dataclass(frozen=True)
class _Operators:
    """How DALI executes one class of step."""

    # Adds the step's nodes; takes what :func:`add_steps` takes, for one signature
    add: Callable[[StepSignature, Any, Source, Size, str], Any]
    inputs: Callable[[Any], Inputs] = lambda step: {}  # Inputs of a step of N samples, (N, ...) by name
    # Values of a step that are fixed when the pipeline is built; others build another pipeline
    options: Callable[[Any], tuple[Any, ...]] = lambda step: ()


# ``Table`` has no row: DALI's ``lookup_table`` takes one table when a pipeline is defined, for all samples of
# all batches, and a Table has one for each sample. ``AddNoise`` and ``Displace`` have no row: all engines
# must make the same noise, and DALI draws other noise.
_OPERATORS: dict[type[Step], _Operators] = {
    Affine: _Operators(_affine, _affine_inputs, lambda step: (step.mean_matrix is not None,)),
    Posterize: _Operators(
        _posterize, lambda step: {"kept": (0xFF00 >> step.bits.astype(np.int64) & 0xFF).astype(np.uint8)}
    ),
    Solarize: _Operators(_solarize, lambda step: {"threshold": step.threshold}),
    Autocontrast: _Operators(_autocontrast),
    Equalize: _Operators(_equalize),
    Sharpen: _Operators(_sharpen, lambda step: {"smoothing": 1 - step.factor}),
    Blur: _Operators(_blur, lambda step: {"sigma": step.sigma}, lambda step: step.kernel_size),
    Compress: _Operators(_compress, lambda step: {"quality": step.quality.astype(np.int32)}),
    Distort: _Operators(
        _distort,
        lambda step: {"matrix": step.matrix.astype(np.float32)},
        lambda step: (step.fill, step.nearest),
    ),
    WeightedSum: _Operators(_weighted_sum, _weighted_sum_inputs),
}
STEPS = frozenset(step.__name__ for step in _OPERATORS)
"""Names of the classes of steps that DALI executes."""
