"""The DALI pipeline of a specification: the same operators on a CPU and on a GPU.

Node functions take and return nodes of DALI's graph; none of them holds data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...options import DaliOptions
from ..base import EngineSettings, ImageFormat
from .inputs import PipelineSpec, cut_prefix
from .steps import Source, add_steps, mixed, prefixed, warped


def define_pipeline(spec: PipelineSpec, settings: EngineSettings, *, batch_size: int, cuts: int = 1) -> Any:
    """Define a DALI pipeline; the caller builds it."""
    # It decodes a region, resamples it once, executes steps on pixels, maps colours, and erases boxes.
    from nvidia.dali import pipeline_def

    pipeline = pipeline_def(
        _images,
        # Conditionals cost half a second, once in a process.
        enable_conditionals=bool(spec.steps) or spec.perspective or spec.nearest,
        batch_size=batch_size,
        num_threads=settings.num_threads,
        device_id=_device_id(settings.device),
        prefetch_queue_depth=settings.depth,
        exec_dynamic=True,
    )
    return pipeline(spec, settings, cuts)


def _device_id(device: str) -> int | None:
    return None if device == "cpu" else int(device.removeprefix("cuda:") or 0)


def _images(spec: PipelineSpec, settings: EngineSettings, cuts: int) -> tuple[Any, ...]:
    device, image_format = "cpu" if settings.device == "cpu" else "gpu", settings.image_format
    crop = _decoded(device, settings) if spec.encoded else _sent(device)
    if cuts == 1:
        return (_image(crop, spec, image_format, device, _source),)
    sources = [prefixed(cut_prefix(cut), _source) for cut in range(cuts)]
    return tuple(_image(_cut(crop, source), spec, image_format, device, source) for source in sources)


def _image(crop: Any, spec: PipelineSpec, image_format: ImageFormat, device: str, source: Source) -> Any:
    image = _resampled(crop, spec, device, source)
    image = add_steps(spec.steps, image, source, spec.size, device)
    image = _erased(_finished(image, spec, image_format, source), spec, image_format, source)
    return image if image_format.color == "rgb" else _first_channel(image)


def _first_channel(image: Any) -> Any:
    """The first of the three equal channels of a grey image, as one channel."""
    from nvidia.dali import fn

    return fn.slice(image, start=[0], shape=[1], axis_names="C")


def _cut(image: Any, source: Source) -> Any:
    from nvidia.dali import fn, types

    start, shape = source("cut_anchor", types.INT32, 1), source("cut_shape", types.INT32, 1)
    return fn.slice(image, start=start, shape=shape, axis_names="HW")


def _source(name: str, dtype: Any, ndim: int) -> Any:
    from nvidia.dali import fn

    # Payloads are freed without the interpreter. Other inputs are copied: memory that DALI shared with Python
    # would be freed by DALI's threads, which need the interpreter for that while it may be waiting for them
    # to end.
    return fn.external_source(name=name, dtype=dtype, ndim=ndim, batch=True, no_copy=name == "payload")


def _decoded(device: str, settings: EngineSettings) -> Any:
    from nvidia.dali import fn, types

    dali, grey = settings.dali or DaliOptions(), settings.image_format.color == "gray"
    payload = _source("payload", types.UINT8, 1)
    anchor, shape = (_source(name, types.INT32, 1) for name in ("anchor", "shape"))
    options: dict[str, Any] = {"device": "cpu"}
    if grey:
        options["output_type"] = types.GRAY
    if device == "gpu":
        options |= {"device": "mixed", "hw_decoder_load": float(dali.hw_decoder_load)}
        # True would send the regions of most JPEGs to the CPU (nvImageCodec 0.9 with nvJPEG before 13.2).
        options["jpeg_fancy_upsampling"] = False
        if settings.largest:
            height, width = settings.largest
            options |= {"preallocate_height_hint": height, "preallocate_width_hint": width}
    if not dali.decodes_regions(device):
        # ``resize`` could take the region as well, but its filter would read beyond the crop.
        image = fn.slice(fn.decoders.image(payload, **options), start=anchor, shape=shape, axis_names="HW")
    else:
        image = fn.decoders.image_slice(
            payload,
            anchor,
            shape,
            axis_names="HW",
            normalized_anchor=False,
            normalized_shape=False,
            **options,
        )
    return fn.cat(image, image, image, axis_name="C") if grey else image


def _sent(device: str) -> Any:
    """Payloads that are pixels, which were cropped before, so that no more than is needed goes to a GPU."""
    from nvidia.dali import types

    image = _source("payload", types.UINT8, 3)
    return image.gpu() if device == "gpu" else image


def _resampled(image: Any, spec: PipelineSpec, device: str, source: Source) -> Any:
    from nvidia.dali import fn, types

    region: dict[str, Any] = {}
    if not spec.whole:
        region = {name: source(name, types.FLOAT, 1) for name in ("roi_start", "roi_end")}
        region["roi_relative"] = False
    sizes_differ = spec.padded or spec.warp
    image = fn.resize(
        image,
        size=source("dest_size", types.FLOAT, 1) if sizes_differ else list(spec.size),
        **region,
        interp_type=_interpolation(source) if spec.interpolation else types.INTERP_LINEAR,
        antialias=spec.antialias,
    )
    if spec.warp:
        image = _warped(image, spec, source)
        return _before_horizon(image, spec, device, source) if spec.perspective else image
    if spec.padded:
        image = fn.slice(
            image,
            start=source("dest_anchor", types.INT32, 1),
            shape=list(spec.size),
            axis_names="HW",
            out_of_bounds_policy="pad",
            fill_values=list(spec.fill),
        )
    if spec.vertical or spec.mirrors_first:
        image = fn.flip(
            image,
            horizontal=source("horizontal", types.INT32, 0) if spec.mirrors_first else 0,
            vertical=source("vertical", types.INT32, 0) if spec.vertical else 0,
        )
    return image


def _interpolation(source: Source) -> Any:
    from nvidia.dali import fn, types

    return fn.reinterpret(source("interpolation", types.INT32, 0), dtype=types.INTERP_TYPE)


def _warped(image: Any, spec: PipelineSpec, source: Source) -> Any:
    from nvidia.dali import types

    matrix = source("matrix", types.FLOAT, 2)
    if not spec.nearest:
        return warped(image, matrix, spec.size, spec.fill)
    if source("picks", types.BOOL, 0):
        image = warped(image, matrix, spec.size, spec.fill, nearest=True)
    else:
        image = warped(image, matrix, spec.size, spec.fill)
    return image


def _before_horizon(image: Any, spec: PipelineSpec, device: str, source: Source) -> Any:
    """The image with ``fill`` where the third component of the warp's map is not positive."""
    from nvidia.dali import types

    if source("behind", types.BOOL, 0):
        y, x = (np.indices((*spec.size, 1), np.float32) + 0.5)[:2]
        horizon = source("horizon", types.FLOAT, 1)
        columns, rows = (types.Constant(value=grid, dtype=types.FLOAT, device=device) for grid in (x, y))
        fill = types.Constant(value=np.array([[spec.fill]], np.uint8), dtype=types.UINT8, device=device)
        ahead = columns * horizon[0] + rows * horizon[1] + horizon[2] > 0
        image = fill ^ ((image ^ fill) & (ahead * types.Constant(255, types.UINT8)))
    return image


def _finished(image: Any, spec: PipelineSpec, image_format: ImageFormat, source: Source) -> Any:
    """The image with its last colour map, in the output's element type and layout; mirrored if it was not."""
    from nvidia.dali import fn, types

    scaling: dict[str, Any]
    if spec.mixing:
        image = mixed(image, source, spec.mean)
        scaling = {"mean": 0.0, "std": 1.0}
    else:
        names = {"mean": "average", "std": "deviation"}
        scaling = {argument: source(name, types.FLOAT, 1) for argument, name in names.items()}
    if not spec.warp and not spec.mirrors_first:
        scaling["mirror"] = source("horizontal", types.INT32, 0)
    dtypes = {"uint8": types.UINT8, "float16": types.FLOAT if spec.erase else types.FLOAT16}
    return fn.crop_mirror_normalize(
        image,
        **scaling,
        dtype=dtypes.get(image_format.dtype, types.FLOAT),
        output_layout="CHW" if image_format.layout == "NCHW" else "HWC",
        pad_output=image_format.layout == "NHWC4",
    )


def _erased(image: Any, spec: PipelineSpec, image_format: ImageFormat, source: Source) -> Any:
    """The image with its boxes overwritten, in the output's element type."""
    from nvidia.dali import fn, types

    for index, value in enumerate(spec.erase):
        image = fn.erase(
            image,
            anchor=source(f"erase.{index}.anchor", types.FLOAT, 1),
            shape=source(f"erase.{index}.shape", types.FLOAT, 1),
            axis_names="HW",
            fill_value=[*value, 0.0] if image_format.layout == "NHWC4" else list(value),
            normalized_anchor=False,
            normalized_shape=False,
        )
    # DALI's ``erase`` has no float16 on a GPU.
    return fn.cast(image, dtype=types.FLOAT16) if spec.erase and image_format.dtype == "float16" else image
