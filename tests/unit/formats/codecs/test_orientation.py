"""Tests of the orientation of images, by EXIF alone, where XMP or a text profile states another one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.pictures import encode, exif
from PIL import Image, PngImagePlugin

import stoker
from stoker.augment import Resize
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_for_reference, decode_rgb
from stoker.formats.codecs.header import ImageHeader, read_header

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8))
LOSSLESS = {"WEBP": {"lossless": True}}


def encoded(form: str, **options: Any) -> bytes:
    return encode(PICTURE, form, **LOSSLESS.get(form, {}), **options)


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
    more: dict[str, Any] = {"xmp": xmp(3)}
    if form == "TIFF":
        more = {"tiffinfo": {700: xmp(3), 0x0112: 6}}
    else:
        more["exif"] = exif(6)
    data = encoded(form, **more)
    assert read_header(data) == ImageHeader(Codec[form], 30, 20, 6)
    np.testing.assert_array_equal(decode_rgb(data, Codec[form], 30, 20), np.rot90(np.asarray(PICTURE), -1))


def test_native_and_reference_engine_turn_images_alike(pack_images: Callable[..., Path]) -> None:
    folder = pack_images([data for _, data in FILES.values()])
    assert not any("image" in problem.message for problem in stoker.verify(folder, decode=True).problems)
    batches = []
    for engine in ("native", "reference"):
        options: dict[str, Any] = {"batch_size": len(FILES), "transforms": [Resize((20, 30))]}
        with stoker.ImageLoader(folder, engine=engine, dtype="uint8", layout="NHWC", **options) as loader:
            batches.append(next(iter(loader)).image.astype(int))
    assert np.abs(batches[0] - batches[1]).max() <= 1
