"""Every instruction set gives the same bytes: each number of taps, both directions, stores of each kind."""

from dataclasses import fields, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from helpers.payloads import execute, samples_of
from helpers.processes import BatchForm, digests_at_level

from stoker.augment import ImageParams
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.index import Samples
from stoker.pipeline.engines.base import ImageFormat

T = TypeVar("T", Samples, ImageParams)

HEIGHT, WIDTH = 24, 300
N = 8


def samples(path: Path) -> Samples:
    """Raw pixels, with the largest possible contrast in a quarter of them."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (N, HEIGHT, WIDTH, 3), np.uint8)
    pixels[::2, ::2] = np.where(pixels[::2, ::2] < 128, 0, 255)
    return samples_of([image.tobytes() for image in pixels], path, (HEIGHT, WIDTH), Codec.RAW)


def resize(height: int, width: int) -> ImageParams:
    """Crops without a few columns, some of them mirrored; the last crop is wider than high."""
    color = np.zeros((N, 3, 4), np.float32)
    color[:, range(3), range(3)] = 1 / 57, 1 / 58, 1 / 59
    color[..., 3] = -2.1, -2.0, -1.8
    region = np.tile([0, 1.25, HEIGHT, WIDTH - 0.75], (N, 1))
    region[-1] = 3.5, 20.25, 9.75, 290.5
    return ImageParams(
        size=(height, width),
        crop=np.tile([0, 0, HEIGHT, WIDTH], (N, 1)).astype(np.int32),
        region=region,
        dest=np.tile([0, 0, height, width], (N, 1)).astype(np.int32),
        flip=np.array([(i & 2, i & 1) for i in range(N)], bool),
        color=color,
        fill=np.zeros(3, np.uint8),
    )


def make_batches() -> list[BatchForm]:
    """Output types, layouts and parameters of batches that reach every kernel."""
    # From two taps to twelve along a row, from two to six along a column.
    batches: list[BatchForm] = []
    for width in (700, 333, 299, 257, 160, 151, 110, 97, 80, 75, 61, 52, 17, 1):
        params = resize(10 if width % 2 else 30, width)
        levels = replace(params, color=np.tile(np.eye(3, 4, dtype=np.float32), (N, 1, 1)))
        batches.append(("uint8", "NCHW", levels))
    # Batches that are too large for the caches, and one that is not.
    normalised = resize(256, 208)
    mixed = replace(normalised, color=normalised.color + np.float32(0.001))
    for params in (normalised, mixed, resize(256, 201), resize(20, 208)):
        batches += [("float32", "NCHW", params), ("float32", "NHWC", params), ("float16", "NCHW", params)]
    return batches


BATCHES = make_batches()


def only(i: int, batch: T) -> T:
    """The columns of one sample of a batch."""
    columns = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return replace(batch, **{k: v[i : i + 1] for k, v in columns.items() if np.ndim(v) and len(v) == N})


@pytest.mark.parametrize("batch", BATCHES[-12:])
def test_large_batches_equal_small_ones(batch: BatchForm, tmp_path: Path) -> None:
    """Large batches are stored past the caches, and small ones are not."""
    path, (dtype, layout, params) = tmp_path / "shard", batch
    whole = samples(path)
    images = execute(whole, params, path, ImageFormat(dtype, layout)).images
    for i in range(N):
        alone = execute(only(i, whole), only(i, params), path, ImageFormat(dtype, layout)).images
        np.testing.assert_array_equal(images[i], alone[0])


@pytest.mark.parametrize("level", ["avx2", "avx512"])
def test_every_instruction_set_gives_the_bytes_of_plain_cpp(level: str, tmp_path: Path) -> None:
    path = tmp_path / "shard"
    whole = samples(path)
    plain, found = (digests_at_level(name, path, whole, BATCHES) for name in ("plain", level))
    assert [i for i, (a, b) in enumerate(zip(plain, found, strict=True)) if a != b] == []
