"""Damaged masks, and objects with random numbers, for the C++ that draws them."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from helpers.payloads import png_file
from mutations import mutate, pick
from targets.images.images import matrices

from stoker import _native

Rng = np.random.Generator

_N = 2
_ODD = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 0.0, -0.0)


def make(scratch: Path) -> Callable[[Rng], bool]:
    """Attack with random numbers; an input is accepted if C++ draws one of its class masks."""
    return attack


def attack(rng: Rng) -> bool:
    """Call every entry point once; the only errors may be ValueError, and IndexError for lists."""
    height, width = (rng.integers(1, 90, _N).astype(np.int32) for _ in range(2))
    size = tuple(int(side) for side in rng.integers(1, 70, 2))
    corners = np.sort(rng.random((_N, 2, 2)), axis=1) * np.stack((height, width), axis=1)[:, None]
    region = corners.reshape(_N, 4)
    shown = rng.random(_N) < 0.9
    images: dict[str, Any] = {"matrix": matrices(_N, rng), "region": region, "shown": shown}
    sizes = {"height": height, "width": width}
    _segments(images, sizes, size, rng)
    _objects(region, shown, size, rng)
    _lists(rng)
    return _class_masks(images, sizes, size, rng)


def _class_masks(images: Any, sizes: Any, size: tuple[int, ...], rng: Rng) -> bool:
    files = [
        _png(int(h), int(w), rng)
        for h, w in zip(sizes["height"].tolist(), sizes["width"].tolist(), strict=True)
    ]
    out = np.empty((_N, *size), np.uint8)
    with contextlib.suppress(ValueError):
        return len(_native.class_masks(out, files, **images, **sizes, fill=int(rng.integers(0, 256)))) < _N
    return False


def _png(height: int, width: int, rng: Rng) -> bytes:
    """A mask whose compressed rows are mostly damaged, and rarely also its chunks without new checksums."""
    rows = rng.integers(0, int(rng.integers(1, 257)), (height, width + 1), np.uint8)
    rows[:, 0] = rng.integers(0, 5 + (rng.random() < 0.1), height)
    compressor = zlib.compressobj(int(rng.integers(0, 10)), zlib.DEFLATED, 15, 9, int(rng.integers(0, 5)))
    stream = compressor.compress(rows.tobytes()) + compressor.flush()
    if rng.random() < 0.8:
        stream = stream[:2] + mutate(stream[2:], rng)
    cut = int(rng.integers(0, len(stream) + 1))
    data = png_file(height, width, stream[:cut], stream[cut:])
    return mutate(data, rng) if rng.random() < 0.1 else data


def _segments(images: Any, sizes: Any, size: tuple[int, ...], rng: Rng) -> None:
    m = int(rng.integers(0, 5))
    out = np.empty((m, *size), np.uint8)
    owner = rng.integers(0, _N + (rng.random() < 0.05), m)
    polygons = rng.integers(0, 3, m)
    vertices = rng.integers(0, 9, int(polygons.sum()))
    points = rng.normal(40, 10.0 ** rng.integers(0, 5), (int(vertices.sum()), 2))
    if points.size and rng.random() < 0.3:
        points.flat[rng.integers(0, points.size)] = pick(_ODD, rng)
    with contextlib.suppress(ValueError):
        _native.fill_polygons(out, owner, **images, points=points, sizes=vertices, polygons=polygons)
    pixels = (sizes["height"] * sizes["width"])[np.minimum(owner, _N - 1)]
    runs = [np.diff([0, *np.sort(rng.integers(0, n + 1, rng.integers(0, 12))), n]) for n in pixels.tolist()]
    flat = np.concatenate([np.zeros(0, np.int64), *runs]).astype(np.uint32)
    if flat.size and rng.random() < 0.1:
        flat[rng.integers(0, flat.size)] = rng.integers(0, 1 << 32)
    counts = np.array(list(map(len, runs)), np.int64)
    with contextlib.suppress(ValueError):
        _native.fill_runs(out, owner, **images, **sizes, runs=flat, counts=counts)


def _objects(region: Any, shown: Any, size: tuple[int, ...], rng: Rng) -> None:
    m = int(rng.integers(0, 5))
    boxes = rng.normal(30, 40, (m, 4)).astype(np.float32)
    if m and rng.random() < 0.3:
        boxes.flat[rng.integers(0, boxes.size)] = rng.choice([np.nan, np.inf, 3e38])
    geometry: dict[str, Any] = {
        "owner": rng.integers(0, _N, m),
        "size": size,
        "region": region,
        "dest": rng.integers(0, 60, (_N, 4)).astype(np.int32),
        "flip": rng.random((_N, 2)) < 0.5,
        "shown": shown,
    }
    window = region if rng.random() < 0.5 else None
    _native.transform_boxes(boxes, **geometry, window=window, min_visible=0.1, min_size=1.0)
    points = rng.normal(30, 40, (m, 3, 3)).astype(np.float32)
    _native.transform_keypoints(points, **geometry, swap=rng.permutation(3))


def _lists(rng: Rng) -> None:
    n = int(rng.integers(0, 6))
    starts = np.sort(rng.integers(0, 20, n + 1))
    if rng.random() < 0.3:
        starts[rng.integers(0, n + 1)] = rng.choice([-1, 1 << 62, -(1 << 63), (1 << 63) - 1])
    rows = rng.integers(-1 if rng.random() < 0.2 else 0, n + 1, int(rng.integers(0, 6)))
    with contextlib.suppress(ValueError, IndexError):
        _native.take_lists([(starts, np.arange(20.0)), (starts, np.zeros(20, np.uint8))], rows)
