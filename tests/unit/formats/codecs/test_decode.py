"""Tests of decoding to RGB, grey and stored channels, of images of every codec, mode and bit depth."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import decode_with_pillow, encode, first_images, noise
from helpers.payloads import chunk, png
from PIL import Image

import stoker
from stoker.augment import CenterCrop
from stoker.errors import DecodeError, ImageTooLargeError
from stoker.formats.codecs.codec import CODECS, Codec, engine_decodes
from stoker.formats.codecs.decode import (
    decode_channels,
    decode_for_reference,
    decode_grey,
    decode_rgb,
    stored_form,
)
from stoker.formats.codecs.header import open_image, open_mask

GREYS = np.arange(0, 65536, 16, dtype=np.uint16).reshape(64, 64)
HEIGHT, WIDTH = 9, 13
NOISE = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
RGBA = Image.fromarray(NOISE)


def as_rgb(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[..., np.newaxis], 3, axis=2)


def sixteen_bits(form: str, levels: np.ndarray) -> bytes:
    return encode(Image.fromarray(levels.astype(np.int32) if form == "PPM" else levels), form)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM", "JPEG2000"])  # PPM as older Pillow writes it
def test_grey_of_sixteen_bits_is_kept_and_its_higher_eight_become_rgb(form: str) -> None:
    data = sixteen_bits(form, GREYS)
    expected = as_rgb((GREYS >> 8).astype(np.uint8))
    np.testing.assert_array_equal(decode_rgb(data, Codec.OTHER, 64, 64), expected)
    np.testing.assert_array_equal(decode_with_pillow(data), expected)
    assert stored_form(data, Codec.OTHER, 64, 64) == (1, 16)
    decoded = decode_channels(data, Codec.OTHER, 64, 64, alpha=False)
    assert decoded.dtype == np.uint16
    np.testing.assert_array_equal(decoded[..., 0], GREYS)
    alpha = decode_channels(data, Codec.OTHER, 64, 64, alpha=True)
    np.testing.assert_array_equal(alpha[..., 0], GREYS >> 8)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_a_tiff_of_sixteen_bits_whose_zero_is_white_is_not_a_negative(
    tmp_path: Path, order: str, orientation: int
) -> None:
    stored = GREYS[:, :32]
    tags = {
        256: 32,
        257: 64,
        258: 16,
        259: 1,
        262: 0,
        273: 8,
        274: orientation,
        277: 1,
        278: 64,
        279: stored.nbytes,
    }
    entries = b"".join(
        struct.pack(f"{order}HHI", tag, 3, 1) + struct.pack(f"{order}H2x", value)
        for tag, value in tags.items()
    )
    start = struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, 8 + stored.nbytes)
    data = (
        start
        + stored.astype(f"{order}u2").tobytes()
        + struct.pack(f"{order}H", len(tags))
        + entries
        + bytes(4)
    )
    shown = np.rot90(~stored, -1) if orientation == 6 else ~stored
    for form in (data, bytearray(data)):
        assert np.array_equal(decode_rgb(form, Codec.TIFF, 0, 0), as_rgb((shown >> 8).astype(np.uint8)))
        assert np.array_equal(decode_channels(form, Codec.TIFF, 0, 0, alpha=False)[..., 0], shown)
    assert stored_form(data, Codec.TIFF, 0, 0) == (1, 16)
    with stoker.Writer(tmp_path / "out") as writer:
        writer.write(data)
        if orientation == 1:
            writer.write(open_image(data))
    loaded = [stoker.open(tmp_path / "out")[i].image for i in range(1 + (orientation == 1))]
    assert all(np.array_equal(one[..., 0], shown >> 8) for one in loaded)


def test_the_orientation_of_an_image_of_sixteen_bits_is_applied() -> None:
    data = encode(GREYS[:, :32], "PNG", orientation=6)
    expected = as_rgb(np.rot90((GREYS[:, :32] >> 8).astype(np.uint8), -1))
    np.testing.assert_array_equal(decode_rgb(data, Codec.PNG, 64, 32), expected)


def test_native_and_reference_engine_decode_sixteen_bits_alike(pack_images: Callable[..., Path]) -> None:
    folder = pack_images([encode(Image.fromarray(GREYS), "PNG")])
    for engine in ("native", "reference"):
        (image,) = first_images(folder, [CenterCrop(64)], batch_size=1, engine=engine, layout="NHWC")
        np.testing.assert_array_equal(image, as_rgb((GREYS >> 8).astype(np.uint8)))


@pytest.mark.parametrize(("dtype", "words"), [(np.int32, "integers of 32 bits"), (np.float32, "floats")])
def test_pixels_of_32_bits_are_refused(dtype: type, words: str, pack_images: Callable[..., Path]) -> None:
    data = encode(Image.fromarray(np.ones((4, 5), dtype)), "TIFF")
    with pytest.raises(DecodeError, match=words):
        decode_rgb(data, Codec.TIFF, 4, 5)
    folder = pack_images([data])
    assert words in stoker.verify(folder, decode=True).problems[0].message
    with (
        stoker.ImageLoader(folder, batch_size=1, transforms=[CenterCrop(4)]) as loader,
        pytest.raises(DecodeError, match=f"{words}.*key 'k0'"),
    ):
        next(iter(loader))


def test_raw_pixels_png_and_jpeg_are_decoded_to_their_rgb() -> None:
    pixels = noise(0)
    jpeg = encode(pixels, "JPEG")
    for data, codec, expected in (
        (pixels.tobytes(), Codec.RAW, pixels),
        (encode(pixels, "PNG"), Codec.PNG, pixels),
        (jpeg, Codec.JPEG, np.asarray(Image.open(io.BytesIO(jpeg)))),
    ):
        np.testing.assert_array_equal(decode_rgb(data, codec, *pixels.shape[:2]), expected)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_decoded_channels_are_those_that_a_png_stores_and_rgb_is_made_of_every_mode(mode: str) -> None:
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
    assert np.array_equal(decode_rgb(data, Codec.PNG, HEIGHT, WIDTH), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("codec", [Codec.PNG, Codec.JPEG])
@pytest.mark.parametrize(
    ("orientation", "turn"),
    [
        (1, lambda a: a),
        (2, lambda a: a[:, ::-1]),
        (3, lambda a: a[::-1, ::-1]),
        (4, lambda a: a[::-1]),
        (5, lambda a: a.transpose(1, 0, 2)),
        (6, lambda a: a.transpose(1, 0, 2)[:, ::-1]),
        (7, lambda a: a.transpose(1, 0, 2)[::-1, ::-1]),
        (8, lambda a: a.transpose(1, 0, 2)[::-1]),
    ],
)
def test_the_exif_orientation_is_applied(codec: Codec, orientation: int, turn: Callable[..., Any]) -> None:
    image = Image.fromarray(noise(0, 16, 24))
    expected = turn(decode_with_pillow(encode(image, codec.name)))
    found = decode_rgb(encode(image, codec.name, orientation=orientation), codec, *expected.shape[:2])
    np.testing.assert_array_equal(found, expected)


def test_the_table_has_a_row_for_every_codec() -> None:
    assert set(CODECS) == set(Codec)


def test_data_that_are_not_an_image_are_refused() -> None:
    with pytest.raises(OSError, match="cannot identify"):
        decode_rgb(b"no image", Codec.PNG, 5, 7)


def test_an_image_with_more_pixels_than_allowed_is_refused_by_every_decoder() -> None:
    image = np.zeros((6, 7, 3), np.uint8)
    payloads = {
        codec: encode(image, row.pillow_formats[0]) for codec, row in CODECS.items() if row.pillow_formats
    }
    payloads |= {Codec.RAW: bytes(6 * 7 * 3), Codec.PLANES: bytes(6 * 7)}
    for codec, payload in payloads.items():
        for decode in (decode_rgb, decode_for_reference):
            assert decode(payload, codec, 6, 7, 42).shape == (6, 7, 3)
            with pytest.raises((ImageTooLargeError, ValueError), match="pixels"):
                decode(payload, codec, 6, 7, 41)


def test_the_reference_engine_refuses_a_jpeg_that_lacks_pixels() -> None:
    data = encode(noise(0, 64, 64), "JPEG")
    cut = data[: len(data) // 2] + b"\xff\xd9"
    with pytest.raises(ValueError, match="premature end"):
        decode_for_reference(cut, Codec.JPEG, 64, 64)
    expected = np.asarray(Image.open(io.BytesIO(data)))
    np.testing.assert_array_equal(decode_for_reference(data, Codec.JPEG, 64, 64), expected)


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(
    ("color", "bits"), [(0, 1), (0, 4), (0, 8), (0, 16), (2, 8), (3, 2), (3, 8), (4, 8), (6, 8), (6, 16)]
)
def test_a_png_whose_rows_end_early_is_refused_by_every_decoder(
    color: int, bits: int, interlaced: bool
) -> None:
    data = png(1, 13, 11, color, bits, interlaced=interlaced, split=20)
    at, end = data.index(b"IDAT") - 4, len(data) - 12
    chunks, head = [], data[:at]
    while at < end:
        length = int.from_bytes(data[at : at + 4], "big")
        chunks.append(data[at + 8 : at + 8 + length])
        at += length + 12
    rows = zlib.decompress(b"".join(chunks))
    for kept in (rows, rows + rows, rows[:-1], rows[: len(rows) // 2], b""):
        changed = head + chunk(b"IDAT", zlib.compress(kept)) + chunk(b"IEND", b"")
        for decode in (
            lambda data: decode_rgb(data, Codec.PNG, 13, 11),
            lambda data: decode_for_reference(data, Codec.PNG, 13, 11),
            lambda data: decode_grey(data, Codec.PNG, 13, 11),
            lambda data: decode_channels(data, Codec.PNG, 13, 11, alpha=False),
            lambda data: decode_channels(data, Codec.PNG, 13, 11, alpha=True),
            lambda data: np.asarray(open_mask(data)),
        ):
            if len(kept) >= len(rows):
                assert np.array_equal(decode(changed), decode(data))
            else:
                with pytest.raises(DecodeError, match="the data ends before the image does"):
                    decode(changed)


def test_each_engine_decodes_only_its_codecs() -> None:
    codecs = np.array([Codec.RAW, Codec.JPEG, Codec.PNG, Codec.PLANES, Codec.OTHER], np.uint8)
    assert engine_decodes("native", codecs).tolist() == [True, True, True, False, False]
    assert engine_decodes("dali", codecs).tolist() == [False, True, False, False, False]
    assert not engine_decodes("reference", codecs).any()


def test_grey_is_the_luma_of_a_jpeg_and_a_weighted_sum_of_the_rgb_of_other_images() -> None:
    rgb = RGBA.convert("RGB")
    jpeg = encode(rgb, "JPEG", quality=90, subsampling=2)
    with Image.open(io.BytesIO(jpeg)) as image:
        image.draft("YCbCr", image.size)
        luma = np.asarray(image.convert("YCbCr"))[..., 0]
    assert np.array_equal(decode_grey(jpeg, Codec.JPEG, HEIGHT, WIDTH), as_rgb(luma))
    grey = decode_grey(encode(rgb, "PNG"), Codec.PNG, HEIGHT, WIDTH)
    red, green, blue = NOISE[..., :3].astype(int).transpose(2, 0, 1)
    assert np.array_equal(grey[..., 1], (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16)


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
