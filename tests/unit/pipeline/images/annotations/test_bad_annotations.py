"""Damaged annotations: an error of their sample, which is raised, or the sample is skipped or replaced."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.annotations.annotated_scenes import (
    HEIGHT,
    WIDTH,
    N,
    annotations,
    first,
    load,
    scenes,
    write_annotated,
)
from helpers.data.pictures import encode, png
from PIL import Image

from stoker.errors import CorruptRecordError, DecodeError
from stoker.formats.dataset.annotations import to_columns
from stoker.formats.open import open as open_dataset
from stoker.pipeline.preview.scene import read_scene

pytestmark = pytest.mark.filterwarnings("ignore:a bad sample was")


@pytest.fixture(scope="module")
def make(pack_images: Callable[..., Path]) -> Callable[..., Path]:
    """``make(masks, **columns)``: the annotated dataset, with other masks and columns if given."""
    return partial(write_annotated, pack_images)


def damaged(make: Callable[..., Path], number: int, mask: bytes) -> Path:
    """The annotated dataset with another mask of sample ``number``."""
    masks = [png(scene.mask()) for scene in scenes()]
    return make([*masks[:number], mask, *masks[number + 1 :]])


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 80 60\n%%EndComments\n(a program) print\n%%EOF\n"


def impossible_tiff() -> bytes:
    """A TIFF whose strips begin at fractions of a byte, for which Pillow raises a TypeError."""
    file = bytearray(encode(np.zeros((HEIGHT, WIDTH), np.uint8), "TIFF"))
    (directory,) = struct.unpack_from("<I", file, 4)
    (entries,) = struct.unpack_from("<H", file, directory)
    for entry in range(directory + 2, directory + 2 + 12 * entries, 12):
        if struct.unpack_from("<H", file, entry) == (273,):  # StripOffsets
            struct.pack_into("<H", file, entry + 2, 12)  # double
    return bytes(file)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (b"no image", "cannot be decoded"),
        (png(np.zeros((HEIGHT, WIDTH), np.uint8))[:50], "cannot be decoded"),
        (png(np.zeros((8, 8), np.uint8)), "8 x 8 pixels, its image 60 x 80"),
        (png(np.zeros((HEIGHT, WIDTH, 3), np.uint8)), "mode RGB"),
        (png(np.full((HEIGHT, WIDTH), 256, np.uint16)), "the value 256, .* as uint8"),
        (impossible_tiff(), "cannot be decoded"),
        (EPS, "none of the formats of masks"),
        (encode(np.zeros((HEIGHT, WIDTH), np.uint8)), "none of the formats of masks"),
    ],
    ids=["no image", "truncated", "another size", "colours", "16 bits", "impossible TIFF", "EPS", "JPEG"],
)
def test_a_damaged_mask_is_an_error_of_its_sample(make: Callable[..., Path], mask: bytes, words: str) -> None:
    folder = damaged(make, 3, mask)
    with load(folder) as loader, pytest.raises(DecodeError, match=words) as caught:
        next(iter(loader))
    assert (caught.value.key, caught.value.record) == ("k3", 3)
    good = first(make())
    with load(folder, on_error="skip") as loader:
        batch = next(iter(loader))
        assert (loader.stats().skipped, loader.stats().bad_keys) == (1, ("k3",))
    kept = [0, 1, 2, 4, 5, 6]
    assert np.array_equal(batch.segmentation, good.segmentation[kept])
    assert [ids.tolist() for ids in batch.object_id] == [good.object_id[i].tolist() for i in kept]
    with load(folder, on_error="replace") as loader:
        batch = next(iter(loader))
    kept.insert(3, 4)
    assert np.array_equal(batch.segmentation, good.segmentation[kept])
    assert [boxes.tolist() for boxes in batch.boxes] == [good.boxes[i].tolist() for i in kept]


@pytest.mark.parametrize("mask", [impossible_tiff(), EPS], ids=["impossible TIFF", "EPS"])
def test_a_preview_names_the_sample_of_a_damaged_mask(make: Callable[..., Path], mask: bytes) -> None:
    with pytest.raises(DecodeError, match="mask cannot be decoded") as caught:
        read_scene(open_dataset(damaged(make, 3, mask)), np.arange(N))
    assert caught.value.key == "k3"


def test_a_mask_of_16_bits_with_small_values_is_read(make: Callable[..., Path]) -> None:
    masks = [png(scene.mask().astype(np.uint16)) for scene in scenes()]
    assert np.array_equal(first(make(masks)).segmentation, first(make()).segmentation)


def test_a_mask_with_a_wrong_checksum_is_named(make: Callable[..., Path]) -> None:
    crc = np.ones(N, np.uint32)
    with load(make(mask_crc=crc)) as loader, pytest.raises(CorruptRecordError, match="mask's checksum"):
        next(iter(loader))


def test_run_lengths_of_another_image_size_are_named(make: Callable[..., Path]) -> None:
    parts = []
    for i, scene in enumerate(scenes()):
        m = len(scene.boxes)
        runs = [np.array([0, HEIGHT * WIDTH - (i == 4)], np.uint32)] * m
        parts.append(replace(annotations(i, scene), runs=runs, polygons=[[] for _ in range(m)]))
    folder = make(**to_columns(parts))
    with load(folder) as loader, pytest.raises(CorruptRecordError, match="run lengths") as caught:
        next(iter(loader))
    assert caught.value.key == "k4"
    with load(folder, on_error="skip", columns=("row", "masks")) as loader:
        batch = next(iter(loader))
    assert batch.row.tolist() == [0, 1, 2, 3, 5, 6]
    assert all((masks == 1).all() for masks in batch.masks)


def test_a_polygon_with_a_vertex_that_is_not_finite_is_named(make: Callable[..., Path]) -> None:
    parts = [annotations(i, scene) for i, scene in enumerate(scenes())]
    polygons = parts[2].polygons
    assert polygons is not None
    polygons[1][0][2, 1] = np.nan
    folder = make(**to_columns(parts))
    with (
        load(folder) as loader,
        pytest.raises(CorruptRecordError, match="a vertex that is not finite") as caught,
    ):
        next(iter(loader))
    assert caught.value.key == "k2"
    with load(folder, on_error="skip", columns=("row", "masks")) as loader:
        assert next(iter(loader)).row.tolist() == [0, 1, 3, 4, 5, 6]


@pytest.mark.parametrize("options", [{"compress_level": 0}, {"optimize": True}])
def test_masks_that_only_pillow_decodes_are_read(make: Callable[..., Path], options: dict[str, Any]) -> None:
    """A palette, and one bit a pixel, beside a mask that is decoded in C++."""
    masks = [Image.fromarray(scene.mask()) for scene in scenes()]
    masks[1] = Image.fromarray(scenes()[1].mask() > 0)
    masks[2] = masks[2].convert("P")
    files = [encode(mask, "PNG", **options) for mask in masks]
    assert {file[24:26] for file in files} >= {b"\x08\x00", b"\x01\x00"}
    assert np.array_equal(first(make(files)).segmentation, first(make()).segmentation)
