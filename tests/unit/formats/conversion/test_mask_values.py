"""Values of masks become classes, or are refused."""

from __future__ import annotations

import io
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import decode, encode
from helpers.options import convert
from helpers.payloads import png_file
from PIL import Image

import stoker
from stoker.errors import ConfigError, SourceError
from stoker.formats.conversion.image_objects import ResizeGeometry, resize_geometry
from stoker.formats.conversion.mask_values import MaskRules, encode_mask, mask_table
from stoker.formats.sources.image_files import SkippedError
from stoker.formats.verify import mask_problem

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def convert_mask(folder: Path, mask: np.ndarray[Any, Any], **options: Any) -> np.ndarray[Any, Any]:
    """Convert a source of one image with this mask; return the stored mask."""
    for kind, pixels in (("images", np.zeros((*mask.shape[:2], 3), np.uint8)), ("masks", mask)):
        (folder / kind).mkdir()
        Image.fromarray(pixels).save(folder / kind / "a.png")
    convert(folder / "images", folder / "out", **{"masks": folder / "masks", **options})
    with Image.open(io.BytesIO(stoker.open(folder / "out").mask(0))) as image:
        return np.asarray(image)


VALUES = np.array([[0, 1, 2], [0, 2, 255]], np.uint8)


@pytest.mark.parametrize(
    ("mask", "mask_map", "expected"),
    [
        (VALUES, "0:255,1:0,2:1,255:255", [[255, 0, 1], [255, 1, 255]]),
        (VALUES, {0: 7, 1: 7, 2: 300, 255: 8}, [[7, 7, 300], [7, 300, 8]]),
        (VALUES[:, :2], "ade20k", [[255, 0], [255, 1]]),
        (np.array([[7, 33, 0], [11, 34 - 1, 255]], np.uint8), "cityscapes", [[0, 18, 255], [2, 18, 255]]),
        (np.array([[256, 1]], np.uint16), "256:3,1:1", [[3, 1]]),
        (np.array([[[255, 0, 0], [0, 0, 128]]], np.uint8), "#ff0000:1,#000080:0", [[1, 0]]),
        (np.array([[[255, 0, 0], [0, 0, 128]]], np.uint8), {(255, 0, 0): 1, (0, 0, 128): 0}, [[1, 0]]),
    ],
    ids=["pairs", "mapping", "ade20k", "cityscapes", "16-bits", "colours", "colours-mapping"],
)
def test_a_mask_map_makes_classes_of_values_and_colours(
    tmp_path: Path, mask: Any, mask_map: Any, expected: Any
) -> None:
    ignore = 300 if max(map(max, expected)) == 300 else 255
    assert convert_mask(tmp_path, mask, mask_map=mask_map, ignore_index=ignore).tolist() == expected


@pytest.mark.parametrize(
    ("mask", "options", "reason"),
    [
        (VALUES, {"mask_map": "0:0,1:1"}, "mask with a value that mask_map lacks: 2"),
        (VALUES, {}, "mask with a value without a class: 2, more than 1"),
        (np.array([[300, 1]], np.uint16), {}, "mask with a value without a class: 300, more than 1"),
        (np.zeros((2, 2, 3), np.uint8), {"mask_map": "#ff0000:1"}, "mask_map lacks: #000000"),
        (np.zeros((2, 2, 3), np.uint8), {}, "mask of more than one channel"),
    ],
    ids=["not mapped", "no class name", "16 bits", "colour not mapped", "rgb without a map"],
)
def test_a_mask_with_a_value_without_a_class_is_not_stored(
    tmp_path: Path, mask: Any, options: dict[str, Any], reason: str
) -> None:
    (tmp_path / "classes.txt").write_text("wall\nbuilding\n")
    with pytest.raises(SourceError, match=reason):
        convert_mask(tmp_path, mask, **options)


def test_a_value_above_255_is_refused_without_names_of_classes(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="300, more than 255"):
        convert_mask(tmp_path, np.array([[300, 1]], np.uint16))


@pytest.mark.parametrize("value", ["", "0", "0:1,0:2", "0:1,#ff0000:2", "a:1", "0:70000", "#ff00:1", "voc"])
def test_a_text_that_is_no_mask_map_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="mask_map"):
        convert_mask(tmp_path, VALUES, mask_map=value)


def test_a_mask_map_needs_masks_and_ade20k_an_ignored_value(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mask_map ade20k needs ignore_index"):
        convert_mask(tmp_path, VALUES, mask_map="ade20k", ignore_index=None)
    with pytest.raises(ConfigError, match="mask_map is for masks, and the source has none"):
        convert(tmp_path / "images", tmp_path / "x", unlabelled=True, mask_map="0:1")


def test_the_map_of_cityscapes_has_its_19_training_classes() -> None:
    table = mask_table("cityscapes", 255)
    assert sorted(set(table.values())) == [*range(19), 255]
    assert len(table) == 35


H, W = 24, 36
WHOLE = resize_geometry("none", 0, 0, (H, W))


def values(seed: int = 0, most: int = 150, size: tuple[int, int] = (H, W)) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, most + 1, size).astype(np.uint8)


png = partial(encode, form="PNG")


def test_verification_finds_masks_of_another_size_or_form() -> None:
    mask = png(Image.fromarray(values()))
    assert mask_problem(mask, (H, W)) is None
    assert "is 36 x 24 where the image is 36 x 25" in str(mask_problem(mask, (H + 1, W)))
    assert "not decodable" in str(mask_problem(mask[:60], (H, W)))
    assert "more than one channel" in str(mask_problem(png(Image.new("RGB", (W, H))), (H, W)))


def stored_mask(mask: bytes, geometry: ResizeGeometry = WHOLE, **rules: Any) -> bytes:
    return encode_mask(mask, (H, W), geometry, MaskRules(**rules), 10**6)


def test_padding_above_255_makes_a_mask_of_16_bits() -> None:
    geometry = resize_geometry("fill", H, 2 * W, (H, W))
    data = stored_mask(png(Image.fromarray(values())), geometry, padding=300)
    assert {300} < set(np.unique(decode(data)).tolist()) <= {300, *range(256)}


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_the_values_of_a_mask_with_a_palette_are_its_indices(bits: int) -> None:
    classes = values(most=(1 << bits) - 1)
    palette = Image.fromarray(classes).convert("P")
    palette.putdata(classes.reshape(-1).tolist())
    palette.putpalette([7] * 768)
    data = stored_mask(png(palette, bits=bits))
    np.testing.assert_array_equal(decode(data), classes)
    assert data[24:26] == bytes([8, 0])  # 8 bits of grey


def grey_png(classes: np.ndarray[Any, Any], bits: int) -> bytes:
    """A grey PNG of 2 or 4 bits, which Pillow does not write."""
    pixels_per_byte = 8 // bits
    packed = (classes.reshape(len(classes), -1, pixels_per_byte) << np.arange(8 - bits, -1, -bits)).sum(-1)
    rows = b"".join(b"\0" + row.tobytes() for row in packed.astype(np.uint8))
    return png_file(*classes.shape, zlib.compress(rows), form=(bits, 0, 0, 0, 0))


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_values_of_few_bits_are_not_scaled(bits: int) -> None:
    classes = values(most=(1 << bits) - 1)
    mask = png(Image.fromarray(classes.astype(bool))) if bits == 1 else grey_png(classes, bits)
    np.testing.assert_array_equal(decode(stored_mask(mask)), classes)


def test_a_mask_of_16_bits_is_kept_and_resized_by_nearest_pixels() -> None:
    classes = np.random.default_rng(0).integers(0, 1 << 16, (H, W)).astype(np.uint16)
    data = png(Image.fromarray(classes))
    assert stored_mask(data, classes=1 << 16) == data
    half = stored_mask(data, resize_geometry("squash", H // 2, W // 2, (H, W)), classes=1 << 16)
    np.testing.assert_array_equal(decode(half), classes[1::2, 1::2])


def test_a_mask_of_more_pixels_than_the_limit_is_refused() -> None:
    with pytest.raises(SkippedError, match="broken mask"):
        encode_mask(png(Image.fromarray(values())), (H, W), WHOLE, MaskRules(), 100)


@pytest.mark.parametrize("rules", [{"classes": 256}, {}, {"classes": 2}])
def test_a_mask_whose_rows_end_early_is_refused(rules: dict[str, Any]) -> None:
    data = png_file(H, W, zlib.compress(bytes(H // 2 * (W + 1))))
    with pytest.raises(SkippedError, match="broken mask"):
        stored_mask(data, **rules)
    assert "the data ends before the image does" in str(mask_problem(data, (H, W)))
