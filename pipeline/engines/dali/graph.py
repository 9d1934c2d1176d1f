"""The graph that DALI executes, the same on a CPU and on a GPU but for where its images are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .inputs import Graph, as_mean
from .operators import mixed, warped
from .steps import add_steps

if TYPE_CHECKING:
    from ..base import Output

__all__ = ["define"]


def define(
    graph: Graph, output: Output, *, device_id: int | None, batch_size: int, num_threads: int, depth: int
) -> Any:
    """A DALI pipeline, to be built: region decode, one resampling, steps on pixels, colour, erased boxes.

    Args:
        graph: What it must be able to do.
        output: Form of the images.
        device_id: The GPU, or None for the CPU.
        batch_size: Samples in the largest batch.
        num_threads: CPU threads.
        depth: Batches in flight at once.
    """
    from nvidia.dali import pipeline_def

    pipeline = pipeline_def(
        _images,
        # To prepare for conditions takes half a second, once in a process.
        enable_conditionals=bool(graph.steps) or graph.perspective or graph.nearest,
        batch_size=batch_size,
        num_threads=num_threads,
        device_id=device_id,
        prefetch_queue_depth=depth,
        exec_dynamic=True,
    )
    return pipeline(graph, output, "cpu" if device_id is None else "gpu")


def _images(graph: Graph, output: Output, device: str) -> Any:
    crop = _decoded(device) if graph.encoded else _sent(device)
    image = _resampled(crop, graph, device)
    image = add_steps(graph.steps, image, _source, graph.size, device)
    return _erased(_finished(image, graph, output), graph, output)


def _source(name: str, dtype: Any, ndim: int) -> Any:
    from nvidia.dali import fn

    # The list of payloads is a copy already: what DALI shared with Python its threads would free, for which
    # they wait for the interpreter, that may be waiting for them to end.
    return fn.external_source(name=name, dtype=dtype, ndim=ndim, batch=True, no_copy=name == "payload")


def _decoded(device: str) -> Any:
    from nvidia.dali import fn, types

    return fn.decoders.image_slice(
        _source("payload", types.UINT8, 1),
        _source("anchor", types.INT32, 1),
        _source("shape", types.INT32, 1),
        axis_names="HW",
        normalized_anchor=False,
        normalized_shape=False,
        device="mixed" if device == "gpu" else "cpu",
    )


def _sent(device: str) -> Any:
    """Payloads that are pixels; of these the feeder crops, so that a GPU is sent no more than is needed."""
    from nvidia.dali import types

    image = _source("payload", types.UINT8, 3)
    return image.gpu() if device == "gpu" else image


def _resampled(image: Any, graph: Graph, device: str) -> Any:
    from nvidia.dali import fn, types

    region: dict[str, Any] = {}
    if not graph.whole:
        region = {name: _source(name, types.FLOAT, 1) for name in ("roi_start", "roi_end")}
        region["roi_relative"] = False
    own_size = graph.padded or graph.warp
    image = fn.resize(
        image,
        size=_source("dest_size", types.FLOAT, 1) if own_size else list(graph.size),
        **region,
        interp_type=_interpolation() if graph.interpolation else types.INTERP_LINEAR,
        antialias=True,
    )
    if graph.warp:
        image = _warped(image, graph)
        return _before_horizon(image, graph, device) if graph.perspective else image
    if graph.padded:
        image = fn.slice(
            image,
            start=_source("dest_anchor", types.INT32, 1),
            shape=list(graph.size),
            axis_names="HW",
            out_of_bounds_policy="pad",
            fill_values=list(graph.fill),
        )
    if graph.vertical:
        image = fn.flip(image, horizontal=0, vertical=_source("vertical", types.INT32, 0))
    return image


def _interpolation() -> Any:
    from nvidia.dali import fn, types

    return fn.reinterpret(_source("interpolation", types.INT32, 0), dtype=types.INTERP_TYPE)


def _warped(image: Any, graph: Graph) -> Any:
    from nvidia.dali import types

    matrix = _source("matrix", types.FLOAT, 2)
    if not graph.nearest:
        return warped(image, matrix, graph.size, graph.fill)
    if _source("picks", types.BOOL, 0):
        image = warped(image, matrix, graph.size, graph.fill, nearest=True)
    else:
        image = warped(image, matrix, graph.size, graph.fill)
    return image


def _before_horizon(image: Any, graph: Graph, device: str) -> Any:
    """``fill`` where the third component of the warp's map is not positive."""
    from nvidia.dali import types

    if _source("behind", types.BOOL, 0):
        y, x = (np.indices((*graph.size, 1), np.float32) + 0.5)[:2]
        horizon = _source("horizon", types.FLOAT, 1)
        columns, rows = (types.Constant(value=grid, dtype=types.FLOAT, device=device) for grid in (x, y))
        fill = types.Constant(value=np.array([[graph.fill]], np.uint8), dtype=types.UINT8, device=device)
        ahead = columns * horizon[0] + rows * horizon[1] + horizon[2] > 0
        image = fill ^ ((image ^ fill) & (ahead * types.Constant(255, types.UINT8)))
    return image


def _finished(image: Any, graph: Graph, output: Output) -> Any:
    """Colour, mirror, element type and layout."""
    from nvidia.dali import fn, types

    scaling: dict[str, Any]
    if graph.mixing:
        image = mixed(image, _source, graph.mean)
        scaling = {"mean": 0.0, "std": 1.0}
    elif graph.scale is not None:
        average, deviation = as_mean(np.array(graph.scale), np.array(graph.shift))
        scaling = {"mean": average.tolist(), "std": deviation.tolist()}
    else:
        names = {"mean": "average", "std": "deviation"}
        scaling = {argument: _source(name, types.FLOAT, 1) for argument, name in names.items()}
    if not graph.warp:
        scaling["mirror"] = _source("horizontal", types.INT32, 0)
    dtypes = {"uint8": types.UINT8, "float16": types.FLOAT if graph.erase else types.FLOAT16}
    return fn.crop_mirror_normalize(
        image,
        **scaling,
        dtype=dtypes.get(output.dtype, types.FLOAT),
        output_layout="CHW" if output.layout == "NCHW" else "HWC",
        pad_output=output.layout == "NHWC4",
    )


def _erased(image: Any, graph: Graph, output: Output) -> Any:
    """Boxes overwritten, in the output's element type."""
    from nvidia.dali import fn, types

    for position, value in enumerate(graph.erase):
        image = fn.erase(
            image,
            anchor=_source(f"erase.{position}.anchor", types.FLOAT, 1),
            shape=_source(f"erase.{position}.shape", types.FLOAT, 1),
            axis_names="HW",
            fill_value=[*value, 0.0] if output.layout == "NHWC4" else list(value),
            normalized_anchor=False,
            normalized_shape=False,
        )
    # On a GPU ``erase`` lacks float16.
    return fn.cast(image, dtype=types.FLOAT16) if graph.erase and output.dtype == "float16" else image
