"""PNGs of every kind in C++: pixels, errors and what is read of damaged files, compared with Pillow."""

from __future__ import annotations

import struct
import zlib
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from helpers.images import (
    all_images,
    assert_bad_sample_of_every_engine,
    assert_refused_in_the_words_of_pillow,
    convert_images,
    decode_in_cpp,
    first_images,
)
from helpers.payloads import PNG_KINDS, chunk, png

from stoker import _native
from stoker.augment import CenterCrop, RandomResizedCrop
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_channels, decode_for_reference, decode_grey

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


@pytest.mark.parametrize(("kind", "interlaced"), [*product(PNG_KINDS, [False, True])])
def test_pixels_are_those_of_pillow(kind: tuple[int, int], interlaced: bool) -> None:
    for seed, sides in enumerate([(1, 1), (5, 7), (33, 18), (64, 70), (40, 1), (2, 99)]):
        data = png(seed, *sides, *kind, interlaced=interlaced, split=[1 << 30, 11][seed % 2])
        assert np.array_equal(decode_in_cpp(data), decode_for_reference(data, Codec.PNG, *sides))


@pytest.mark.parametrize("alpha", [True, False])
@pytest.mark.parametrize("kind", PNG_KINDS)
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


def test_transparent_colours_are_left_to_pillow_and_damage_is_an_error() -> None:
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
    assert np.array_equal(decode_in_cpp(ODD[name]), decode_for_reference(ODD[name], Codec.PNG, *SIDES))


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
    assert_refused_in_the_words_of_pillow(DAMAGED[name], Codec.PNG, SIDES)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a PNG of each kind."""
    files = {
        f"{i:02}.png": png(i, 40 + i, 50 - i, *kind, interlaced=bool(i % 2))
        for i, kind in enumerate(PNG_KINDS)
    }
    return convert_images(tmp_path_factory.mktemp("png"), files)


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_loaders_of_pngs_make_what_the_reference_makes(shards: Path, color: str) -> None:
    options = {"batch_size": 6, "transforms": [RandomResizedCrop(16)], "color": color}
    batches = (all_images(shards, engine=engine, **options) for engine in ("native", "reference"))
    assert max(np.abs(found - expected).max() for found, expected in zip(*batches, strict=True)) <= 1


def test_a_crop_of_a_grey_loader_has_the_grey_of_the_whole_image(shards: Path) -> None:
    grey = first_images(shards, [CenterCrop((40, 36))], batch_size=6, color="gray")[5]
    whole = decode_grey(png(5, 45, 45, *PNG_KINDS[5], interlaced=True), Codec.PNG, 45, 45)[..., 0]
    assert np.array_equal(grey[0], whole[2:42, 4:40])


def test_a_damaged_png_is_a_bad_sample_in_the_words_of_pillow(tmp_path: Path) -> None:
    damaged, message = DAMAGED["a stream that is cut off"], r"image file is truncated .*bad\.png"
    assert_bad_sample_of_every_engine(tmp_path, "bad.png", damaged, message)


def test_a_png_may_not_claim_more_pixels_than_are_allowed(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 1 << 20, 1 << 20, 16, 6, 0, 0, 0)
    bomb = WHOLE[:8] + chunk(b"IHDR", header) + chunk(b"IDAT", STREAM) + END
    with pytest.raises(ValueError, match="pixels"):
        decode_in_cpp(bomb, 10**8)
