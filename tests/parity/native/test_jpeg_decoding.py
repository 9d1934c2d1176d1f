"""Regions and unusual variants of JPEG, which the native engine decodes as Pillow does."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import decode_with_pillow, encode, without_adobe_marker
from helpers.payloads import execute, photograph, samples_of, whole
from PIL import Image

from stoker.augment import ImageParams
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_for_reference


def decoded(payload: bytes, params: ImageParams, size: tuple[int, int], folder: Path) -> Any:
    result = execute(samples_of([payload], folder / "shard", size), params, folder / "shard")
    assert result.status.tolist() == [0], result.reason
    return result.images[0]


def decoded_region(payload: bytes, size: tuple[int, int], box: tuple[int, ...], folder: Path) -> Any:
    """The pixels of a box, (top, left, bottom, right), of an image of this size."""
    top, left, bottom, right = box
    params = whole((bottom - top, right - left), size)
    params.crop[:] = top, left, bottom - top, right - left
    params.region[:] = box
    return decoded(payload, params, size, folder)


def sampled(horizontal: int, vertical: int) -> bytes:
    """A JPEG whose luminance has these sampling factors, which Pillow can read and not write.

    The header of a 4:4:4 image is rewritten; what it shows is not the picture that was encoded, but every
    decoder sees the same.
    """
    data = bytearray(encode(photograph(64, 64), subsampling="4:4:4", quality=90))
    frame = data.index(b"\xff\xc0")
    data[frame + 11] = horizontal << 4 | vertical
    blocks = horizontal * vertical + 2
    height, width = (64 * 3 // blocks) // vertical * vertical or vertical, 64
    data[frame + 5 : frame + 9] = (height // 8 * 8 or 8).to_bytes(2, "big") + width.to_bytes(2, "big")
    return bytes(data)


@pytest.mark.parametrize(("horizontal", "vertical"), [(4, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 2)])
def test_regions_of_unusual_sampling_factors_are_decoded_bit_for_bit(
    horizontal: int, vertical: int, tmp_path: Path
) -> None:
    payload = sampled(horizontal, vertical)
    pixels = decode_with_pillow(payload)
    height, width = pixels.shape[:2]
    for top, left in [(0, 0), (3, 5), (height // 2, 31)]:
        found = decoded_region(payload, (height, width), (top, left, height, width), tmp_path)
        np.testing.assert_array_equal(found, pixels[top:, left:])


@pytest.mark.parametrize(
    "factors", [(0x41, 0x21, 0x11), (0x41, 0x11, 0x21), (0x11, 0x41, 0x21), (0x21, 0x11, 0x21)]
)
def test_a_region_of_components_with_three_widths_is_decoded_bit_for_bit(
    factors: tuple[int, int, int], tmp_path: Path
) -> None:
    data = bytearray(encode(photograph(64, 64), subsampling="4:4:4", quality=90))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 7] = (8).to_bytes(2, "big")
    data[frame + 11 : frame + 20 : 3] = bytes(factors)
    payload = bytes(data)
    pixels = decode_with_pillow(payload)
    for left, right in [(0, 1), (0, 2), (1, 2), (1, 7), (3, 6), (29, 35), (62, 64)]:
        found = decoded_region(payload, (8, 64), (0, left, 8, right), tmp_path)
        np.testing.assert_array_equal(found, pixels[:, left:right])


@pytest.mark.parametrize(("horizontal", "vertical"), [(4, 2), (2, 4), (2, 2)])
def test_a_reduced_region_of_unusual_sampling_factors_is_that_of_the_reduced_image(
    horizontal: int, vertical: int, tmp_path: Path
) -> None:
    """A region has the pixels that it has in the whole image, though chroma is reduced less than luma."""
    payload = sampled(horizontal, vertical)
    height, width = decode_with_pillow(payload).shape[:2]
    quarter = decoded(payload, whole((height // 4, 16), (height, width)), (height, width), tmp_path)
    for left, right in [(0, 20), (12, 40), (32, 64)]:
        params = whole((height // 4, (right - left) // 4), (height, width))
        params.crop[:] = 0, left, height, right - left
        params.region[:] = 0, left, height, right
        found = decoded(payload, params, (height, width), tmp_path)
        # The pixels at the edges of a region are resized without their neighbours.
        inner = quarter[:, left // 4 + 1 : right // 4 - 1]
        np.testing.assert_array_equal(found[:, 1:-1], inner)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_region_is_decoded_bit_for_bit(subsampling: str, progressive: bool, tmp_path: Path) -> None:
    payload = encode(photograph(67, 83), quality=85, subsampling=subsampling, progressive=progressive)
    pixels = decode_with_pillow(payload)
    corners = [(top, left) for top in range(0, 40, 3) for left in range(0, 50, 7)]
    boxes = [(y, x, y + h, x + w) for y, x in corners for h, w in [(5, 9), (27, 33)]]
    for top, left, bottom, right in boxes:
        found = decoded_region(payload, (67, 83), (top, left, bottom, right), tmp_path)
        np.testing.assert_array_equal(found, pixels[top:bottom, left:right])


def test_cmyk_without_adobe_marker_is_not_inverted(tmp_path: Path) -> None:
    payload = without_adobe_marker(encode(photograph(24, 24).convert("CMYK"), quality=95))
    expected = np.asarray(Image.open(io.BytesIO(payload)), np.int64)
    # Pillow reads every CMYK as Adobe's. Undo that, then convert by its own formula.
    ink = 255 - expected
    rgb = (255 - ink[..., 3:]) - ((255 - ink[..., 3:]) * ink[..., :3] + 127) // 255
    for pixels in (
        decoded(payload, whole((24, 24), (24, 24)), (24, 24), tmp_path),
        decode_for_reference(payload, Codec.JPEG, 24, 24),
    ):
        assert np.abs(pixels - rgb).max() <= 1


def test_bytes_after_the_end_of_a_jpeg_change_nothing(tmp_path: Path) -> None:
    payload = encode(photograph(40, 30))
    results = [
        decoded(data, whole((40, 30), (40, 30)), (40, 30), tmp_path)
        for data in (payload, payload + b"\0" * 1000, payload + b"\xff\xd8\xff\xe0 and more")
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
