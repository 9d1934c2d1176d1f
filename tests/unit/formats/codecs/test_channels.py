"""Tests of decoding to grey, to RGB with alpha, and to the channels of the stored image."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers.data.pictures import encode
from PIL import Image

from stoker.formats.codecs.channels import decode_channels, decode_grey, stored_form
from stoker.formats.codecs.codec import Codec

HEIGHT, WIDTH = 9, 13
NOISE = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
RGBA = Image.fromarray(NOISE)


def test_grey_is_the_luma_of_a_jpeg_and_a_weighted_sum_of_the_rgb_of_other_images() -> None:
    rgb = RGBA.convert("RGB")
    jpeg = encode(rgb, "JPEG", quality=90, subsampling=2)
    with Image.open(io.BytesIO(jpeg)) as image:
        image.draft("YCbCr", image.size)
        luma = np.asarray(image.convert("YCbCr"))[..., 0]
    grey = decode_grey(jpeg, Codec.JPEG, HEIGHT, WIDTH)
    assert np.array_equal(grey, np.repeat(luma[..., None], 3, axis=2))
    grey = decode_grey(encode(rgb, "PNG"), Codec.PNG, HEIGHT, WIDTH)
    red, green, blue = NOISE[..., :3].astype(int).transpose(2, 0, 1)
    assert np.array_equal(grey[..., 1], (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_decoded_channels_are_those_that_a_png_stores(mode: str) -> None:
    image = RGBA.convert("RGB").convert("P") if mode == "P" else RGBA.convert(mode)
    data = encode(image, "PNG")
    channels = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4}[mode]
    assert stored_form(data, Codec.PNG, HEIGHT, WIDTH).channels == channels
    shown = image.convert({"1": "L", "P": "RGB"}.get(mode, mode))
    expected = np.asarray(shown).reshape(HEIGHT, WIDTH, channels)
    assert np.array_equal(decode_channels(data, Codec.PNG, HEIGHT, WIDTH, alpha=False), expected)
    with_alpha = decode_channels(data, Codec.PNG, HEIGHT, WIDTH, alpha=True)
    assert np.array_equal(with_alpha, np.asarray(image.convert("RGBA")))
    assert (with_alpha[..., 3] == 255).all() == (mode not in {"LA", "RGBA"})


def test_a_transparent_colour_becomes_alpha_only_if_alpha_is_asked_for() -> None:
    palette = encode(RGBA.convert("P"), "PNG", transparency=bytes(range(256)))
    assert stored_form(palette, Codec.PNG, HEIGHT, WIDTH).channels == 4
    keyed = encode(RGBA.convert("RGB"), "PNG", transparency=tuple(NOISE[0, 0, :3].tolist()))
    assert stored_form(keyed, Codec.PNG, HEIGHT, WIDTH).channels == 3
    alpha = decode_channels(keyed, Codec.PNG, HEIGHT, WIDTH, alpha=True)[..., 3]
    assert alpha[0, 0] == 0
    assert alpha.sum() == 255 * (alpha.size - 1)


def test_raw_pixels_and_cmyk_count_as_rgb() -> None:
    rgb = np.ascontiguousarray(NOISE[..., :3])
    assert np.array_equal(decode_channels(rgb, Codec.RAW, HEIGHT, WIDTH, alpha=False), rgb)
    assert (decode_channels(rgb, Codec.RAW, HEIGHT, WIDTH, alpha=True)[..., 3] == 255).all()
    assert stored_form(encode(RGBA.convert("CMYK"), "JPEG"), Codec.JPEG, HEIGHT, WIDTH) == (3, 8)
    assert stored_form(encode(RGBA.convert("L"), "JPEG"), Codec.JPEG, HEIGHT, WIDTH) == (1, 8)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM", "JPEG2000"])
def test_grey_of_sixteen_bits_is_kept(form: str) -> None:
    levels = np.arange(HEIGHT * WIDTH, dtype=np.uint16).reshape(HEIGHT, WIDTH) * 500
    data = encode(Image.fromarray(levels.astype(np.int32) if form == "PPM" else levels), form)
    assert stored_form(data, Codec.OTHER, HEIGHT, WIDTH) == (1, 16)
    decoded = decode_channels(data, Codec.OTHER, HEIGHT, WIDTH, alpha=False)
    assert decoded.dtype == np.uint16
    assert np.array_equal(decoded[..., 0], levels)
    alpha = decode_channels(data, Codec.OTHER, HEIGHT, WIDTH, alpha=True)
    assert np.array_equal(alpha[..., 0], levels >> 8)
