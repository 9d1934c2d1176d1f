"""Pixels of both engines."""

from __future__ import annotations

from typing import Any

from helpers.loaders import image_arguments

import stoker
import stoker.augment as aug

from .params import COLORS, GEOMETRY, POLICIES, WARPS
from .results import Pixels
from .sources import Sandbox

ENGINES = ("native", "reference")
CROP = [aug.RandomResizedCrop((32, 40)), aug.RandomHorizontalFlip()]


def images(dataset: Any, transforms: list[Any], engine: str, scale: float = 1, **options: Any) -> Pixels:
    """Returns the images of the first batch of epoch 2.

    Args:
        dataset: Dataset.
        transforms: Transforms.
        engine: Engine.
        scale: Turns values into levels; -1 stands for the scale and offset of normalised values.
        options: Further options of the loader.
    """
    options = {"num_threads": 1, "rank": 0, "world_size": 1, "batch_size": 6, "columns": ("image",)} | options
    options |= {"transforms": transforms, "engine": engine, "seed": 3, "shuffle": True}
    with stoker.ImageLoader(dataset, **image_arguments(**options)) as loader:
        loader.set_epoch(2)
        pixels = next(iter(loader)).image
    return Pixels(pixels, scale) if scale > 0 else Pixels(pixels, 58, 120)


def forms(sandbox: Sandbox) -> dict[str, Any]:
    """Every layout and element type."""
    results: dict[str, Any] = {}
    for engine in ENGINES:
        for layout in ("NCHW", "NHWC", "NHWC4"):
            for dtype in ("uint8", "float32", "float16", "bfloat16"):
                options = {"dtype": dtype, "layout": layout}
                scale = 1 if dtype == "uint8" else 255
                results[f"{engine}/{layout}/{dtype}"] = images(
                    sandbox.squares, CROP, engine, scale, **options
                )
        results[f"{engine}/normalised"] = images(sandbox.squares, [*CROP, aug.Normalize()], engine, -1)
    return results


def photographs(sandbox: Sandbox) -> dict[str, Any]:
    """JPEGs, also at a reduced size, and stored pixels."""
    raw = sandbox.removed("sets/raw")
    stoker.convert(sandbox.square_source, raw, encoding="raw")
    results: dict[str, Any] = {}
    for engine in ENGINES:
        for name in ("bilinear", "bicubic", "lanczos", "nearest"):
            crop = [aug.RandomResizedCrop(48, interpolation=name)]
            results[f"{engine}/{name}"] = images(sandbox.photos, crop, engine)
            results[f"{engine}/{name}/raw"] = images(raw, crop, engine)
        results[f"{engine}/whole"] = images(sandbox.photos, [aug.Resize((64, 64))], engine)
        results[f"{engine}/large"] = images(sandbox.photos, [aug.RandomCrop(160)], engine)
    return results


def transformed(sandbox: Sandbox, lists: dict[str, list[Any]]) -> dict[str, Any]:
    """Returns the images of both engines for each list of transforms."""
    results: dict[str, Any] = {}
    for name, transforms in lists.items():
        dtype = aug.compile_image(transforms).dtype
        scale = 1 if dtype == "uint8" else -1
        for engine in ENGINES:
            results[f"{engine}/{name}"] = images(sandbox.squares, transforms, engine, scale)
    return results


def geometry_pixels(sandbox: Sandbox) -> dict[str, Any]:
    """Crops, resizes, flips, borders and warps."""
    crops = {name: transforms for name, transforms in GEOMETRY.items() if not name.startswith("iou")}
    return transformed(sandbox, crops | WARPS)


def color_pixels(sandbox: Sandbox) -> dict[str, Any]:
    """Colours, levels, filters, erasing with noise, and policies."""
    lists = {name: [*CROP, *transforms] for name, transforms in (COLORS | POLICIES).items()}
    del lists["dtype"]
    return transformed(sandbox, lists)


CONFIGURATIONS = (forms, photographs, geometry_pixels, color_pixels)
