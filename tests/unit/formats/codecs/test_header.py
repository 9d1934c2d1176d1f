"""Tests of the headers of encoded images."""

import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from helpers.data.pictures import encode as encode_as
from PIL import Image

from stoker.errors import DecodeError, ImageTooLargeError
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.header import ImageHeader, read_header


def encode(form: str, orientation: int = 0, mode: str = "RGB") -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    return encode_as(Image.fromarray(pixels).convert(mode), form, orientation)


@pytest.mark.parametrize(
    ("form", "codec"),
    [
        ("JPEG", Codec.JPEG),
        ("PNG", Codec.PNG),
        ("WEBP", Codec.WEBP),
        ("BMP", Codec.BMP),
        ("GIF", Codec.GIF),
        ("TIFF", Codec.TIFF),
        ("PPM", Codec.OTHER),
    ],
)
def test_a_header_states_codec_and_size(form: str, codec: Codec) -> None:
    assert read_header(memoryview(encode(form))) == ImageHeader(codec, 20, 30, 1)


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "PNG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_size_is_that_of_the_turned_image(form: str, orientation: int) -> None:
    header = read_header(encode(form, orientation))
    assert header.orientation == orientation
    assert (header.height, header.width) == ((20, 30) if orientation < 5 else (30, 20))


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_grey_and_cmyk_jpegs_have_a_header(mode: str) -> None:
    assert read_header(encode("JPEG", mode=mode)) == ImageHeader(Codec.JPEG, 20, 30, 1)


@pytest.mark.parametrize(
    "data", [b"", b"hello", bytes(1000), b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"]
)
def test_data_of_no_image_format_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="not an image of a known format"):
        read_header(data)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
def test_a_file_cut_anywhere_is_refused_or_has_the_right_size(form: str) -> None:
    data = encode(form)
    outcomes = set()
    for length in range(min(len(data), 400)):
        with suppress(DecodeError):
            outcomes.add(read_header(data[:length]).height)
    assert outcomes <= {20}
    with pytest.raises(DecodeError):
        read_header(data[:20])


def png_of(width: int, height: int) -> bytes:
    """A PNG's signature and header; no more is read before the limit is checked."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", 13)
        + chunk
        + struct.pack(">I", zlib.crc32(chunk))
        + bytes(32)
    )


def test_an_image_of_too_many_pixels_is_refused_by_its_header() -> None:
    with pytest.raises(ImageTooLargeError, match="30000 x 30000 pixels"):
        read_header(png_of(30_000, 30_000))
    # A BMP's file header and BITMAPINFOHEADER.
    bitmap = struct.pack("<2sIHHI", b"BM", 54, 0, 0, 54)
    bitmap += struct.pack("<IiiHHIIiiII", 40, 20_000, 20_000, 1, 24, 0, 0, 0, 0, 0, 0)
    with pytest.raises(ImageTooLargeError, match="400000000 pixels"):
        read_header(bitmap)


def test_an_image_without_pixels_is_refused() -> None:
    with pytest.raises(DecodeError, match="width or height"):
        read_header(png_of(0, 5))
