"""WebPs of every kind in C++: pixels, crops and errors, compared with Pillow."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from helpers.images import (
    all_images,
    assert_bad_sample_of_every_engine,
    assert_refused_in_the_words_of_pillow,
    convert_images,
    decode_in_cpp,
)
from helpers.payloads import WEBP_KINDS, webp

from stoker import _native
from stoker.augment import RandomCrop, RandomResizedCrop
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_channels, decode_for_reference

pytestmark = pytest.mark.skipif(
    Codec.WEBP not in _native.DECODED_CODECS, reason="the C++ module is built without libwebp-dev"
)

SIDES = (33, 28)
WHOLE = webp(3, *SIDES, **WEBP_KINDS["lossy"])
LOSSLESS = webp(3, *SIDES, **WEBP_KINDS["lossless"])
ALPHA = webp(3, *SIDES, **WEBP_KINDS["lossy with alpha"])


@pytest.mark.parametrize("kind", WEBP_KINDS)
def test_pixels_are_those_of_pillow(kind: str) -> None:
    for seed, sides in enumerate([(1, 1), (5, 7), (33, 18), (64, 70)]):
        if min(sides) > WEBP_KINDS[kind].get("free", 0):
            data = webp(seed, *sides, **WEBP_KINDS[kind])
            assert np.array_equal(decode_in_cpp(data), decode_for_reference(data, Codec.WEBP, *sides))


@pytest.mark.parametrize("alpha", [True, False])
@pytest.mark.parametrize("kind", WEBP_KINDS)
def test_channels_are_those_of_pillow(kind: str, alpha: bool) -> None:
    data = webp(1, *SIDES, **WEBP_KINDS[kind])
    expected = decode_channels(data, Codec.WEBP, *SIDES, alpha=alpha)
    for top, left, bottom, right in ((0, 0, 99, 99), (9, 3, 20, 21)):
        window = np.array((top, left, bottom, right), np.int32)
        found = _native.decode_stored(Codec.WEBP, data, alpha, 10**6, window)
        assert found is not None
        assert found.shape == expected.shape
        seen = (slice(top, bottom), slice(left, right))
        assert np.array_equal(found[seen], expected[seen])


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {
        f"{i:02}.webp": webp(i, 40 + i, 71 - i, **kind, **({"exif": orientation(6)} if i % 3 == 0 else {}))
        for i, kind in enumerate([*WEBP_KINDS.values()] * 4)
    }
    return convert_images(tmp_path_factory.mktemp("webp"), files)


def orientation(value: int) -> bytes:
    """EXIF with an orientation alone."""
    return b"II*\0\x08\0\0\0" + struct.pack("<HHHII", 1, 0x0112, 3, 1, value) + bytes(4)


def test_a_crop_has_the_pixels_of_the_whole_image(shards: Path) -> None:
    for size in ((13, 20), (21, 9), (1, 1)):
        options = {"batch_size": 8, "transforms": [RandomCrop(size)], "seed": size[0]}
        batches = (all_images(shards, engine=engine, **options) for engine in ("native", "reference"))
        assert all(np.array_equal(*pair) for pair in zip(*batches, strict=True))


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_loaders_of_webps_make_what_the_reference_makes(shards: Path, color: str) -> None:
    options = {"batch_size": 8, "transforms": [RandomResizedCrop(16)], "color": color}
    batches = (all_images(shards, engine=engine, **options) for engine in ("native", "reference"))
    assert max(np.abs(found - expected).max() for found, expected in zip(*batches, strict=True)) <= 1


DAMAGED = {
    "a file that is cut off": WHOLE[:-30],
    "a lossless file that is cut off": LOSSLESS[:-30],
    "data that are cut off, and a length that hides it": b"RIFF"
    + struct.pack("<I", 180)
    + WHOLE[8:16]
    + struct.pack("<I", 168)
    + WHOLE[20:188],
    "no image": b"RIFF" + struct.pack("<I", 4) + b"WEBP",
    "a damaged start of the image": WHOLE[:23] + b"\xff\xff" + WHOLE[25:],
    "other sizes in the header and in the image": ALPHA[:24] + b"\x05\0\0" + ALPHA[27:],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_an_error_in_the_words_of_pillow(name: str) -> None:
    assert_refused_in_the_words_of_pillow(DAMAGED[name], Codec.WEBP, SIDES)


def test_a_damaged_webp_is_a_bad_sample_in_the_words_of_pillow(tmp_path: Path) -> None:
    damaged = LOSSLESS[:40] + bytes(40) + LOSSLESS[80:]
    assert_bad_sample_of_every_engine(tmp_path, "bad.webp", damaged, r"bad\.webp")


def test_a_webp_may_not_have_more_pixels_than_are_allowed() -> None:
    with pytest.raises(ValueError, match="33x28 pixels"):
        decode_in_cpp(WHOLE, 33 * 28 - 1)
