"""Images for the C++ entry points: each must end with a status or with ValueError.

The sanitizers find errors of memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from helpers.images import decode_in_cpp, encode
from mutations import mutate, pick
from PIL import Image

from stoker import _native
from stoker.augment.noise import quantiles
from stoker.errors import StokerError
from stoker.formats.codecs.codec import Codec, ImageHeader, is_native
from stoker.formats.codecs.decode import decode_for_reference
from stoker.formats.codecs.header import read_header

_SIDES = ((1, 1), (7, 5), (33, 47), (64, 64))
_MAX_PIXELS = 1 << 20
MAX_DECODED = 1 << 16
"""Pixels of an image that Pillow decodes, too."""


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with images of every kind that C++ decodes itself; one is accepted if a batch has it."""
    corpus = seeds()
    pool = _native.Pool(2)
    path = scratch / "shard"
    return lambda rng: attack(mutate(pick(corpus, rng), rng), pool, rng, path)


def seeds() -> list[bytes]:
    """Small images of every kind that the engine decodes itself."""
    rng = np.random.default_rng(0)
    images = []
    for height, width in _SIDES:
        image = Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))
        turn = 1 + len(images) % 8
        for mode, options in (
            ("RGB", {"subsampling": "4:2:0", "orientation": turn}),
            ("RGB", {"subsampling": "4:2:2", "progressive": True}),
            ("RGB", {"subsampling": "4:4:4", "restart_marker_blocks": 1}),
            ("L", {"quality": 30}),
            ("CMYK", {"quality": 90}),
        ):
            images.append(encode(image.convert(mode), **options))
        images.append(encode(image, "PNG", turn))
    return images


def attack(data: bytes, pool: _native.Pool, rng: np.random.Generator, path: Path) -> bool:
    """Call every entry point with one input."""
    _native.crc32c(data)
    height, width = 8, 8
    with contextlib.suppress(ValueError):
        _, width, height, orientation, _ = _native.probe(data)
        if orientation >= 5:
            height, width = width, height
    mode = ("none", "shorter", "longer", "squash", "crop", "fill")[int(rng.integers(0, 6))]
    encoding = ("raw", "jpeg")[int(rng.integers(0, 2))]
    with contextlib.suppress(ValueError):
        side = int(rng.integers(1, 40))
        _native.transcode(data, mode, side, int(rng.integers(1, 40)), encoding, 75, "420", _MAX_PIXELS)
    return execute(data, max(height, 1), max(width, 1), pool, rng, path)


def execute(
    data: bytes, height: int, width: int, pool: _native.Pool, rng: np.random.Generator, path: Path
) -> bool:
    """Decode the input as JPEG, raw pixels, PNG and WebP in one batch, for images or parts of one."""
    path.unlink(missing_ok=True)  # the last file may still be mapped
    path.write_bytes(data)
    shards = _native.Shards([str(path)], [len(data)], bool(rng.integers(0, 2)))
    n = 4
    samples, params, size = samples_and_params(n, len(data), height, width, rng)
    optional, others = extras(n, size, rng)
    images = n
    if rng.integers(0, 3) == 0:
        others["composition"] = composition(n, size, rng)
        images = int(others["composition"]["composition.image"][-1]) + 1
        pool = _native.Pool(2, kept=2)  # a new pool, because kept images belong to the file
    status = np.empty(n, np.uint8)
    job = pool.submit(
        shards,
        samples,
        params | optional,
        out=np.empty((images, 3, *size), np.float32),
        layout=0,
        status=status,
        max_pixels=_MAX_PIXELS,
        verify=False,
        **others,
    )
    job.wait()
    for i in range(n):
        if (status[i] != 0) != bool(job.reason(i)):
            raise AssertionError(f"status {status[i]} with reason {job.reason(i)!r}")
    return bool((status == 0).any())


def samples_and_params(
    n: int, length: int, height: int, width: int, rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Any], list[int]]:
    """The columns of samples, one of each codec, those of random crops, and the size of their output."""
    rows = rng.integers(1, height + 1, n)
    columns = rng.integers(1, width + 1, n)
    crop = np.stack(
        [rng.integers(0, height - rows + 1), rng.integers(0, width - columns + 1), rows, columns], 1
    )
    region = np.stack([crop[:, 0], crop[:, 1], crop[:, 0] + rows, crop[:, 1] + columns], 1).astype(float)
    size = [int(side) for side in rng.integers(1, 40, 2)]
    samples = {
        "shard": np.zeros(n, np.int32),
        "offset": np.zeros(n, np.int64),
        "length": np.full(n, length, np.int64),
        "crc": np.zeros(n, np.uint32),
        "codec": np.array([1, 0, 2, 3 if 3 in _native.DECODED_CODECS else 2], np.uint8),
        "height": np.full(n, height, np.int32),
        "width": np.full(n, width, np.int32),
        "orientation": rng.integers(0, 10, n).astype(np.uint8),
    }
    params = {
        "crop": crop.astype(np.int32),
        "region": region,
        "dest": np.tile([0, 0, *size], (n, 1)).astype(np.int32),
        "flip": rng.integers(0, 2, (n, 2)).astype(bool),
        "color": rng.normal(size=(n, 3, 4)).astype(np.float32),
        "fill": np.zeros(3, np.uint8),
    }
    return samples, params, size


def decoded(
    data: bytes, codec: Codec, pool: _native.Pool, rng: np.random.Generator, path: Path
) -> ImageHeader | None:
    """Decode an input in C++ and compare it with Pillow's pixels; return its header unless it is refused."""
    # A module without a decoder of the codec reads the header only.
    try:
        header = read_header(data)
    except StokerError:
        return None
    height, width = header.height, header.width
    if height * width > MAX_DECODED:
        return None
    execute(data, height, width, pool, rng, path)
    if header.codec != codec:
        return None
    try:
        pixels = decode_in_cpp(data, MAX_DECODED)
    except ValueError:
        return None if is_native(codec) else header
    if not np.array_equal(pixels, decode_for_reference(data, codec, height, width)):
        raise AssertionError("C++ decodes other pixels than Pillow")
    return header


def extras(n: int, size: list[int], rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """A warp, interpolations and a mean, then steps and boxes to erase, each in some of the batches."""
    optional: dict[str, Any] = {}
    others: dict[str, Any] = {}
    if rng.integers(0, 2):
        others["steps"] = steps(n, rng)
    if rng.integers(0, 2):
        optional["warp.matrix"] = matrices(n, rng)
        optional["warp.canvas"] = np.array(size, np.int32)
        if rng.random() >= 0.5:
            optional["warp.nearest"] = rng.random(n) < 0.5
    if rng.integers(0, 2):
        optional["interpolation"] = rng.integers(0, 4, n).astype(np.uint8)
    if rng.integers(0, 4) == 0:
        optional["mean_matrix"] = rng.normal(size=(n, 3, 3)).astype(np.float32)
    if rng.integers(0, 4) == 0:
        corners = np.sort(rng.integers(0, np.array([size] * 2) + 1, (n, 2, 2)), axis=1)
        boxes = np.concatenate([corners[:, 0], corners[:, 1] - corners[:, 0]], axis=1)
        erase = {"box": boxes.astype(np.int32), "value": np.float32([1, np.nan, -300])}
        if rng.random() < 0.5:
            erase["noise.keys"] = rng.integers(0, 2**64, n, np.uint64)
            erase["noise.deviation"] = np.float32([1, np.inf, 0])
            erase["quantiles"] = quantiles()
        others["erase"] = [erase]
    return optional, others


def composition(n: int, size: list[int], rng: np.random.Generator) -> dict[str, Any]:
    """Columns by which ``n`` parts make images of one or more parts, on layers with masks or shares."""
    image, layer = np.zeros(n, np.int32), np.zeros(n, np.uint8)
    for part in range(1, n):
        goes_on = rng.random() < 0.7
        image[part] = image[part - 1] + (not goes_on)
        layer[part] = (layer[part - 1] + rng.integers(0, 2)) * goes_on
    masks = int(rng.integers(0, 3))
    columns = {
        "image": image,
        "shown": rng.random(n) < 0.8,
        "layer": layer,
        "share": rng.integers(0, 65537, n, np.int32),
        "mask": rng.integers(-1, masks, n, np.int32),
        "masks": rng.integers(0, 2, masks * size[0] * size[1], np.uint8),
    }
    return {f"composition.{name}": column for name, column in columns.items()}


def matrices(n: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Maps near and far from the identity, along the axes or not, with or without a horizon."""
    matrix = np.eye(3) + rng.normal(size=(n, 3, 3)) * 10.0 ** rng.integers(-4, 4, (n, 3, 3))
    kind = int(rng.integers(0, 4))
    if kind <= 1:
        matrix[:, 2] = 0, 0, 1
    if kind == 0:
        matrix[:, 0, 1] = matrix[:, 1, 0] = 0
    if rng.integers(0, 8) == 0:
        odd = np.array([np.nan, np.inf, -np.inf, 1e300, 0.0])
        matrix.flat[rng.integers(0, matrix.size)] = odd[rng.integers(0, len(odd))]
    return matrix


def steps(n: int, rng: np.random.Generator, depth: int = 0) -> _native.Steps:
    """A few steps of any kind, with numbers that may mean nothing.

    "compiled" is left out: it calls the function at an address, and no address can be checked.
    """
    kinds = sorted(_native.STEP_COLUMNS.keys() - {"compiled"})
    chosen = _native.Steps(n)

    def chains() -> list[_native.Steps]:
        return [steps(n, rng, depth + 1) for _ in range(int(rng.integers(0, 3)) if depth < 2 else 0)]

    for kind in rng.choice(kinds, rng.integers(1, 5)).tolist():
        mixed = chains() if kind == "weighted_sum" else []
        columns: dict[str, Any] = {}
        for column in _native.STEP_COLUMNS[kind]:
            if column.optional and rng.integers(0, 2):
                continue
            columns[column.name] = values(column, n, len(mixed) + 1, rng)
        chosen.append(kind, columns, mixed)
    return chosen


def values(column: _native.Column, n: int, any_size: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Random values of a column of a step; ``any_size`` stands for dimensions of any size."""
    shape = [any_size if side is None else side for side in column.row_shape]
    shape = [n, *shape] if column.per_sample else shape
    if column.name == "matrix":
        return matrices(n, rng)
    if column.name == "kernel_size":  # C++ refuses even sizes and large ones
        return (2 * rng.integers(0, 50, shape) + 1).astype(np.int32)
    if column.name == "sigma" and not column.per_sample:  # C++ refuses negative ones; large ones take long
        return rng.uniform(0, 20, shape).astype(column.dtype)
    dtype = np.dtype(column.dtype)
    if dtype.kind == "f":
        return rng.normal(0, 10.0 ** rng.integers(-2, 4), shape).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape), bool)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
