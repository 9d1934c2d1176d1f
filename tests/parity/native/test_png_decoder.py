"""PNGs of every kind in C++: pixels, errors and what is read of damaged files, compared with Pillow."""

from __future__ import annotations

import struct
import zlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.payloads.png_files import KINDS, chunk, png

import stoker
from stoker import _native
from stoker.augment import CenterCrop, RandomResizedCrop
from stoker.errors import DecodeError, SampleError
from stoker.formats.codecs.channels import decode_channels, decode_grey
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_for_reference, decode_rgb

SIDES = (20, 30)
WHOLE = png(3, *SIDES, 2, 8)
AT = WHOLE.index(b"IDAT") - 4
HEAD, STREAM, END = WHOLE[:AT], WHOLE[AT + 8 : -16], chunk(b"IEND", b"")
ROWS = zlib.decompress(STREAM)
PALETTE = png(3, *SIDES, 3, 8)


def decode_stored(
    data: bytes, alpha: bool, window: tuple[int, ...] = (0, 0, 99, 99), max_pixels: int = 10**6
) -> np.ndarray | None:
    return _native.decode_stored(Codec.PNG, data, alpha, max_pixels, np.array(window, np.int32))


def with_stream(stream: bytes) -> bytes:
    return HEAD + chunk(b"IDAT", stream) + END


@pytest.mark.parametrize(("kind", "interlaced"), [*product(KINDS, [False, True])])
def test_pixels_are_those_of_pillow(kind: tuple[int, int], interlaced: bool) -> None:
    for seed, sides in enumerate([(1, 1), (5, 7), (33, 18), (64, 70), (40, 1), (2, 99)]):
        data = png(seed, *sides, *kind, interlaced=interlaced, split=[1 << 30, 11][seed % 2])
        expected = decode_for_reference(data, Codec.PNG, *sides)
        pixels, *size = _native.transcode(data, "none", 0, 0, "raw", 90, "420", 10**6)
        assert tuple(size) == sides
        assert np.array_equal(np.frombuffer(pixels, np.uint8).reshape(expected.shape), expected)


@pytest.mark.parametrize("alpha", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_channels_are_those_of_pillow(kind: tuple[int, int], alpha: bool) -> None:
    for seed, interlaced in enumerate([False, True]):
        data = png(seed, 33, 18, *kind, interlaced=interlaced)
        found = decode_stored(data, alpha)
        expected = decode_channels(data, Codec.PNG, 33, 18, alpha=alpha)
        assert found is not None
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
        for top, left, bottom, right in [(9, 3, 20, 15), (17, 0, 18, 1), (0, 17, 33, 18), (32, 5, 33, 18)]:
            part = decode_stored(data, alpha, (top, left, bottom, right))
            assert part is not None
            assert np.array_equal(part[top:bottom, left:right], expected[top:bottom, left:right])


def test_transparent_colours_and_damage_are_left_to_pillow() -> None:
    assert decode_stored(HEAD + chunk(b"tRNS", bytes(6)) + WHOLE[AT:], True) is None
    for data, message in ((WHOLE[:-100], "ends before"), (b"no PNG", "not a PNG")):
        with pytest.raises(ValueError, match=message):
            decode_stored(data, True)
    with pytest.raises(ValueError, match="20x30 pixels"):
        decode_stored(WHOLE, False, max_pixels=599)


ODD = {
    "rows that go on": with_stream(zlib.compress(ROWS + bytes(70_000))),
    "bytes behind the stream": with_stream(STREAM + b"junk"),
    "no checksum of the stream": with_stream(STREAM[:-4]),
    "a wrong checksum of IDAT": WHOLE[:-16] + b"abcd" + END,
    "no end": WHOLE[:-12],
    "an unknown chunk": HEAD + chunk(b"ABCD", b"abc") + WHOLE[AT:],
    "an empty IDAT": HEAD + chunk(b"IDAT", b"") + WHOLE[AT:],
    "a short palette": HEAD[:24] + PALETTE[24:33] + chunk(b"PLTE", bytes(range(31))) + PALETTE[33 + 780 :],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_that_pillow_reads_are_read(name: str) -> None:
    expected = decode_for_reference(ODD[name], Codec.PNG, *SIDES)
    pixels, *_ = _native.transcode(ODD[name], "none", 0, 0, "raw", 90, "420", 10**6)
    assert np.array_equal(np.frombuffer(pixels, np.uint8).reshape(expected.shape), expected)


DAMAGED = {
    "a changed stream": with_stream(STREAM[:100] + bytes([STREAM[100] ^ 8]) + STREAM[101:]),
    "a wrong checksum of the stream": with_stream(STREAM[:-1] + bytes([STREAM[-1] ^ 1])),
    "a stream that is cut off": with_stream(STREAM[:-40]),
    "rows that are missing": with_stream(zlib.compress(ROWS[:-200])),
    "an unknown filter": with_stream(zlib.compress(b"\x09" + ROWS[1:])),
    "a file that is cut off": WHOLE[:-100],
    "no pixels": HEAD + END,
    "a wrong checksum of a chunk": HEAD + chunk(b"tEXt", b"abc")[:-1] + b"?" + WHOLE[AT:],
    "IDAT chunks apart": HEAD
    + chunk(b"IDAT", STREAM[:50])
    + chunk(b"tEXt", b"")
    + chunk(b"IDAT", STREAM[50:])
    + END,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_an_error_in_the_words_of_pillow(name: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        _native.transcode(DAMAGED[name], "none", 0, 0, "raw", 90, "420", 10**6)
    with pytest.raises(Exception, match=r"\w") as expected:
        decode_for_reference(DAMAGED[name], Codec.PNG, *SIDES)
    with pytest.raises(type(expected.value)) as found:
        decode_rgb(DAMAGED[name], Codec.PNG, *SIDES)
    assert str(found.value).partition("<")[0] == str(expected.value).partition("<")[0]


def batches(source: Path, **options: Any) -> list[np.ndarray]:
    given = {"batch_size": 6, "transforms": [RandomResizedCrop(16)], "num_threads": 1, **options}
    with stoker.ImageLoader(source, **given) as loader:
        return [np.asarray(batch.image).astype(int) for batch in loader]


def test_loaders_of_pngs_make_what_the_reference_makes(tmp_path: Path) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    for i, kind in enumerate(KINDS):
        data = png(i, 40 + i, 50 - i, *kind, interlaced=bool(i % 2))
        (tmp_path / "images" / "a" / f"{i:02}.png").write_bytes(data)
    stoker.convert(tmp_path / "images", tmp_path / "shards")
    for color in ("rgb", "gray"):
        pairs = zip(
            *(batches(tmp_path / "shards", color=color, engine=e) for e in ("native", "reference")),
            strict=True,
        )
        assert max(np.abs(found - expected).max() for found, expected in pairs) <= 1
    data = (tmp_path / "images" / "a" / "05.png").read_bytes()
    (grey,) = (
        batch[5]
        for batch in batches(tmp_path / "shards", color="gray", transforms=[CenterCrop((40, 36))])[:1]
    )
    whole = decode_grey(data, Codec.PNG, 45, 45)[..., 0]
    assert np.array_equal(grey[0], whole[2:42, 4:40])


def test_a_damaged_png_is_a_bad_sample_in_the_words_of_pillow(tmp_path: Path) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "images" / "a" / "bad.png").write_bytes(DAMAGED["rows that are missing"])
    messages = []
    for engine in ("native", "reference"):
        with pytest.raises(SampleError, match=r"image file is truncated .*bad\.png") as error:
            batches(tmp_path / "images", engine=engine)
        messages.append(error.value.message)
        assert isinstance(error.value, DecodeError)
    assert messages[0] == messages[1]


def test_a_png_may_not_claim_more_pixels_than_are_allowed(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 1 << 20, 1 << 20, 16, 6, 0, 0, 0)
    bomb = WHOLE[:8] + chunk(b"IHDR", header) + chunk(b"IDAT", STREAM) + END
    with pytest.raises(ValueError, match="pixels"):
        _native.transcode(bomb, "none", 0, 0, "raw", 90, "420", 10**8)
