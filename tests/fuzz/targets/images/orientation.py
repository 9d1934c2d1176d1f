"""EXIF, XMP and text profiles: header and pixels of an image agree, in every decoder."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from helpers.images import encode
from mutations import mutate, with_right_checksums
from PIL import Image

from stoker import _native
from stoker.errors import DecodeError
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_for_reference, decode_rgb
from stoker.formats.codecs.header import read_header, turned

_SIZE = (20, 30)
_PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*_SIZE, 3), np.uint8))
_XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description rdf:about="" xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="%d"/>'
    b"</rdf:RDF></x:xmpmeta>"
)
_RAW_PROFILE = b"Raw profile type exif"


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with images whose metadata alone are damaged, and with images that are damaged anywhere."""
    plain = {form: decode_rgb(encoded(form), Codec[form], *_SIZE) for form in ("JPEG", "PNG")}

    def attack(rng: np.random.Generator) -> bool:
        form = ("JPEG", "PNG")[int(rng.integers(0, 2))]
        data = with_metadata(encoded(form), form, rng)
        if rng.random() < 0.5:
            return check(with_right_checksums(mutate(data, rng)) if form == "PNG" else mutate(data, rng))
        header = read_header(data)
        shown = turned(Image.fromarray(plain[form]), header.orientation)
        for decode in (decode_rgb, decode_for_reference):
            np.testing.assert_array_equal(decode(data, header.codec, header.height, header.width), shown)
        return True

    return attack


def check(data: bytes) -> bool:
    """Compare the sizes of header and pixels; return whether there are pixels."""
    header = read_header(data)
    assert header.orientation in range(1, 9)
    sizes = set()
    for decode in (decode_rgb, decode_for_reference):
        with suppress(Exception):  # Pillow's decoders raise almost anything on damaged images
            sizes.add(decode(data, header.codec, header.height, header.width).shape[:2])
    if header.codec == Codec.JPEG:
        with suppress(ValueError):
            sizes.add(_native.transcode(data, "none", 0, 0, "raw", 90, "420", 1 << 20)[1:])
    if not sizes:
        raise DecodeError("no decoder reads it")
    assert sizes == {(header.height, header.width)}, f"{header} and pixels of {sizes}"
    return True


def encoded(form: str) -> bytes:
    """Return the picture as a file without metadata."""
    return encode(_PICTURE, form)


def with_metadata(file: bytes, form: str, rng: np.random.Generator) -> bytes:
    """Return a file with EXIF, XMP and ImageMagick's profile in any order, each damaged or not."""
    tiff = _exif(rng)
    kinds: list[tuple[str, bytes]] = [
        ("exif", tiff),
        ("xmp", _XMP % rng.integers(1, 9)),
        ("profile", _profile(tiff)),
    ]
    chosen = [kinds[int(i)] for i in rng.permutation(3)[: rng.integers(1, 4)]]
    parts = [(name, mutate(part, rng, 3) if rng.random() < 0.7 else part) for name, part in chosen]
    if form == "JPEG":
        names = {"exif": b"Exif\0\0", "xmp": b"http://ns.adobe.com/xap/1.0/\0", "profile": b"JFIF\0"}
        bodies = [names[name] + part for name, part in parts]
        segments = [b"\xff\xe1" + struct.pack(">H", 2 + len(body)) + body for body in bodies]
        return file[:2] + b"".join(segments) + file[2:]
    chunks = b"".join(_chunk(name, part) for name, part in parts)
    return with_right_checksums(file[:33] + chunks + file[33:])


def _exif(rng: np.random.Generator) -> bytes:
    """TIFF of one or two tags, either byte order, the orientation in any of the types of numbers."""
    order = "<>"[int(rng.integers(0, 2))]
    kind, count = (3, 1) if rng.random() < 0.7 else (int(rng.integers(0, 13)), int(rng.integers(0, 3)))
    value = struct.pack(f"{order}HH", int(rng.integers(0, 10)), 0)
    tags = struct.pack(f"{order}HHI", 0x0112, kind, count) + value
    tags += struct.pack(f"{order}HHII", 0x011A, 5, 1, int(rng.integers(0, 60)))
    start = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(f"{order}I", 8)
    return start + struct.pack(f"{order}H", 2) + tags + struct.pack(f"{order}I", int(rng.integers(0, 40)))


def _profile(tiff: bytes) -> bytes:
    digits = (b"Exif\0\0" + tiff).hex()
    return b"\nexif\n%8d\n%s\n" % (len(digits) // 2, digits.encode())


def _chunk(name: str, part: bytes) -> bytes:
    """A chunk of a PNG, without its checksum."""
    chunks: dict[str, Any] = {
        "exif": (b"eXIf", part),
        "xmp": (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + part),
        "profile": (b"tEXt", _RAW_PROFILE + b"\0" + part),
    }
    kind, body = chunks[name]
    return struct.pack(">I", len(body)) + kind + body + bytes(4)
