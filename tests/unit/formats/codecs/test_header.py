"""Tests of the headers of encoded images."""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import encode, exif, first_images
from helpers.options import convert
from helpers.payloads import png_file
from PIL import Image, PngImagePlugin

import stoker
from stoker.augment import CenterCrop, Resize
from stoker.errors import DatasetError, DecodeError, ImageTooLargeError, SourceError
from stoker.formats.codecs.codec import Codec, ImageHeader, is_image_start
from stoker.formats.codecs.decode import decode_for_reference, decode_rgb
from stoker.formats.codecs.header import read_header

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8))


def encoded(form: str, **options: Any) -> bytes:
    return encode(PICTURE, form, **({"lossless": True} if form == "WEBP" else {}), **options)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM"])
def test_a_header_states_codec_and_size(form: str) -> None:
    codec = Codec[form] if form != "PPM" else Codec.OTHER
    assert read_header(memoryview(encoded(form))) == ImageHeader(codec, 20, 30, 1)
    if form == "JPEG":
        for mode in ("L", "CMYK"):
            assert read_header(encode(PICTURE.convert(mode))) == ImageHeader(Codec.JPEG, 20, 30, 1)


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "PNG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_size_is_that_of_the_turned_image(form: str, orientation: int) -> None:
    size = (20, 30) if orientation < 5 else (30, 20)
    header = read_header(encoded(form, orientation=orientation))
    assert header == ImageHeader(Codec[form], *size, orientation)


def png_of(width: int, height: int) -> bytes:
    """A PNG without pixels; no more than its header is read before the limit is checked."""
    return png_file(height, width, bytes(20), form=(8, 2, 0, 0, 0))


BITMAP = struct.pack("<2sIHHI", b"BM", 54, 0, 0, 54)
BITMAP += struct.pack("<IiiHHIIiiII", 40, 20_000, 20_000, 1, 24, 0, 0, 0, 0, 0, 0)  # a BITMAPINFOHEADER
UNKNOWN = "not an image of a known format"


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", DecodeError, UNKNOWN),
        (b"hello", DecodeError, UNKNOWN),
        (bytes(1000), DecodeError, UNKNOWN),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", DecodeError, UNKNOWN),
        (png_of(30_000, 30_000), ImageTooLargeError, "30000 x 30000 pixels"),
        (BITMAP, ImageTooLargeError, "400000000 pixels"),
        (png_of(0, 5), DecodeError, "width or height"),
    ],
)
def test_data_without_a_usable_header_are_refused(data: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_header(data)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
def test_a_file_cut_anywhere_is_refused_or_has_the_right_size(form: str) -> None:
    data = encoded(form)
    outcomes = set()
    for length in range(min(len(data), 400)):
        with suppress(DecodeError):
            outcomes.add(read_header(data[:length]).height)
    assert outcomes <= {20}
    with pytest.raises(DecodeError):
        read_header(data[:20])


def xmp(orientation: int) -> bytes:
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        '<rdf:Description rdf:about="" xmlns:tiff="http://ns.adobe.com/tiff/1.0/" '
        f'tiff:Orientation="{orientation}"/></rdf:RDF></x:xmpmeta>'
    ).encode()


def with_xmp(form: str, orientation: int) -> bytes:
    if form == "PNG":
        text = PngImagePlugin.PngInfo()
        text.add_itxt("XML:com.adobe.xmp", xmp(orientation).decode())
        return encoded(form, pnginfo=text)
    if form == "TIFF":
        return encoded(form, tiffinfo={700: xmp(orientation)})
    return encoded(form, xmp=xmp(orientation))


def with_raw_profile(orientation: int) -> bytes:
    """A PNG with the EXIF that ImageMagick writes as text in hexadecimal digits."""
    data = exif(orientation).tobytes()
    digits = data.hex()
    lines = "\n".join(digits[at : at + 72] for at in range(0, len(digits), 72))
    text = PngImagePlugin.PngInfo()
    text.add_text("Raw profile type exif", f"\nexif\n{len(data):8}\n{lines}\n", zip=True)
    return encoded("PNG", pnginfo=text)


FILES = {
    f"{form} XMP {orientation}": (form, with_xmp(form, orientation))
    for form in ("JPEG", "PNG", "WEBP", "TIFF")
    for orientation in (3, 6)
}
FILES |= {f"raw profile {orientation}": ("PNG", with_raw_profile(orientation)) for orientation in (3, 6)}
"""Format and bytes of images whose XMP or text profile states an orientation, and whose EXIF does not."""


@pytest.mark.parametrize(("form", "data"), FILES.values(), ids=FILES)
def test_xmp_and_text_profiles_do_not_turn_an_image(form: str, data: bytes) -> None:
    codec = Codec[form]
    assert read_header(data) == ImageHeader(codec, 20, 30, 1)
    plain = decode_rgb(encoded(form), codec, 20, 30)
    for decode in (decode_rgb, decode_for_reference):
        np.testing.assert_array_equal(decode(data, codec, 20, 30), plain)


@pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF"])
def test_exif_turns_an_image_whose_xmp_states_another_orientation(form: str) -> None:
    more = {"tiffinfo": {700: xmp(3), 0x0112: 6}} if form == "TIFF" else {"xmp": xmp(3), "exif": exif(6)}
    data = encoded(form, **more)
    assert read_header(data) == ImageHeader(Codec[form], 30, 20, 6)
    np.testing.assert_array_equal(decode_rgb(data, Codec[form], 30, 20), np.rot90(np.asarray(PICTURE), -1))


def test_native_and_reference_engine_turn_images_alike(pack_images: Callable[..., Path]) -> None:
    folder = pack_images([data for _, data in FILES.values()])
    assert not any("image" in problem.message for problem in stoker.verify(folder, decode=True).problems)
    native, reference = (
        first_images(folder, [Resize((20, 30))], batch_size=len(FILES), dtype="uint8", engine=engine).astype(
            int
        )
        for engine in ("native", "reference")
    )
    assert np.abs(native - reference).max() <= 1


HEIC_START = b"\0\0\0\x1cftypheic\0\0\0\0mif1heic"
PIXELS = np.kron(np.arange(0, 192, dtype=np.uint8).reshape(8, 8, 3), np.ones((8, 8, 1), np.uint8))


@pytest.mark.usefixtures("cache")
def test_without_pillow_heif_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(DecodeError, match="pip install pillow-heif"):
        read_header(HEIC_START)
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "phone.heic").write_bytes(HEIC_START)
    needs = "HEIC needs pillow-heif, which is not installed: pip install pillow-heif"
    for source, made in (("photos", "all"), ("photos/a", "none")):
        with pytest.raises(SourceError, match=f"left out: 1 x {needs}"):
            convert(tmp_path / source, tmp_path / made, unlabelled=source != "photos")
    Image.fromarray(PIXELS).save(tmp_path / "photos" / "a" / "camera.jpg")
    summary = stoker.convert(tmp_path / "photos", tmp_path / "shards")
    assert (summary.written, summary.skipped) == (1, {needs: 1})
    assert needs in (tmp_path / "shards" / "skipped.jsonl").read_text()
    assert len(stoker.open(tmp_path / "photos")) == 1
    assert f"images of {tmp_path / 'photos'} are left out: 1 x {needs}" in caplog.text
    assert stoker.convert(tmp_path / "photos", tmp_path / "shards").already
    monkeypatch.setattr("stoker.formats.conversion.publishing.reads_heic", lambda: True)
    with pytest.raises(DatasetError, match="there is a dataset already"):
        stoker.convert(tmp_path / "photos", tmp_path / "shards")


def test_heic_photographs_are_read(tmp_path: Path) -> None:
    package = pytest.importorskip("pillow_heif", reason="HEIC needs pillow-heif: pip install pillow-heif")
    stream = io.BytesIO()
    package.from_pillow(Image.fromarray(PIXELS[:, :48])).save(stream, quality=95)
    heic = stream.getvalue()
    assert read_header(heic) == ImageHeader(Codec.OTHER, 64, 48, 1)
    assert np.abs(decode_rgb(heic, Codec.OTHER, 64, 48).astype(int) - PIXELS[:, :48]).mean() < 6
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "phone.heic").write_bytes(heic)
    image = first_images(tmp_path, [CenterCrop(32)], batch_size=1)[0].transpose(1, 2, 0)
    assert np.abs(image.astype(int) - PIXELS[16:48, 8:40]).mean() < 6


@pytest.mark.parametrize("endian", ["<", ">"])
def test_bigtiffs_are_read_by_name_and_content(endian: str) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (5, 3), (7, 8, 9)).save(buffer, "TIFF", big_tiff=True)
    data = buffer.getvalue()
    assert is_image_start(b"MM\0+" if endian == ">" else data[:32])
    assert read_header(data) == ImageHeader(Codec.TIFF, 3, 5, 1)
    assert decode_rgb(data, Codec.TIFF, 3, 5)[2, 4].tolist() == [7, 8, 9]


def test_an_avif_of_the_brand_mif1_is_no_heic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    data = encoded("AVIF").replace(b"ftypavif\0\0\0\0avif", b"ftypmif1\0\0\0\0avif", 1)
    assert data[8:12] == b"mif1"
    assert read_header(data).codec == Codec.OTHER
    with pytest.raises(DecodeError, match="pillow-heif"):
        read_header(data.replace(b"avif", b"heic").replace(b"avis", b"heic"))
