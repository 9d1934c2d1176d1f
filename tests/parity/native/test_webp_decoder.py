"""WebPs of every kind in C++: pixels, crops and errors, compared with Pillow."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.payloads.webp_files import KINDS, webp

import stoker
from stoker import _native
from stoker.augment import RandomCrop, RandomResizedCrop
from stoker.errors import DecodeError, SampleError
from stoker.formats.codecs.channels import decode_channels
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_for_reference, decode_rgb

pytestmark = pytest.mark.skipif(
    Codec.WEBP not in _native.DECODED_CODECS, reason="the C++ module is built without libwebp-dev"
)

SIDES = (33, 28)
WHOLE = webp(3, *SIDES, **KINDS["lossy"])
LOSSLESS = webp(3, *SIDES, **KINDS["lossless"])
ALPHA = webp(3, *SIDES, **KINDS["lossy with alpha"])


def decode_in_cpp(data: bytes) -> np.ndarray:
    pixels, height, width = _native.transcode(data, "none", 0, 0, "raw", 90, "420", 10**6)
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_those_of_pillow(kind: str) -> None:
    for seed, sides in enumerate([(1, 1), (5, 7), (33, 18), (64, 70)]):
        if min(sides) > KINDS[kind].get("free", 0):
            data = webp(seed, *sides, **KINDS[kind])
            assert np.array_equal(decode_in_cpp(data), decode_for_reference(data, Codec.WEBP, *sides))


@pytest.mark.parametrize("alpha", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_channels_are_those_of_pillow(kind: str, alpha: bool) -> None:
    data = webp(1, *SIDES, **KINDS[kind])
    expected = decode_channels(data, Codec.WEBP, *SIDES, alpha=alpha)
    for top, left, bottom, right in ((0, 0, 99, 99), (9, 3, 20, 21)):
        window = np.array((top, left, bottom, right), np.int32)
        found = _native.decode_stored(Codec.WEBP, data, alpha, 10**6, window)
        assert found is not None
        assert found.shape == expected.shape
        seen = (slice(top, bottom), slice(left, right))
        assert np.array_equal(found[seen], expected[seen])


def batches(source: Path, **options: Any) -> list[np.ndarray]:
    given = {"batch_size": 8, "num_threads": 1, **options}
    with stoker.ImageLoader(source, **given) as loader:
        return [np.asarray(batch.image).astype(int) for batch in loader]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("webp")
    (folder / "images" / "a").mkdir(parents=True)
    for i, options in enumerate([*KINDS.values()] * 4):
        data = webp(i, 40 + i, 71 - i, **options, **({"exif": orientation(6)} if i % 3 == 0 else {}))
        (folder / "images" / "a" / f"{i:02}.webp").write_bytes(data)
    stoker.convert(folder / "images", folder / "shards")
    return folder / "shards"


def orientation(value: int) -> bytes:
    """EXIF with an orientation alone."""
    return b"II*\0\x08\0\0\0" + struct.pack("<HHHII", 1, 0x0112, 3, 1, value) + bytes(4)


def test_a_crop_has_the_pixels_of_the_whole_image(shards: Path) -> None:
    for size in ((13, 20), (21, 9), (1, 1)):
        options = {"transforms": [RandomCrop(size)], "seed": size[0]}
        found, expected = (batches(shards, engine=engine, **options) for engine in ("native", "reference"))
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_loaders_of_webps_make_what_the_reference_makes(shards: Path, color: str) -> None:
    options = {"transforms": [RandomResizedCrop(16)], "color": color}
    pairs = zip(
        *(batches(shards, engine=engine, **options) for engine in ("native", "reference")), strict=True
    )
    assert max(np.abs(found - expected).max() for found, expected in pairs) <= 1


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
    with pytest.raises(ValueError, match=r"\w"):
        decode_in_cpp(DAMAGED[name])
    with pytest.raises(Exception, match=r"\w") as expected:
        decode_for_reference(DAMAGED[name], Codec.WEBP, *SIDES)
    with pytest.raises(type(expected.value)) as found:
        decode_rgb(DAMAGED[name], Codec.WEBP, *SIDES)
    assert str(found.value).partition("<")[0] == str(expected.value).partition("<")[0]


def test_a_damaged_webp_is_a_bad_sample_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    damaged = bytearray(LOSSLESS)
    damaged[40:80] = bytes(40)
    (tmp_path / "images" / "a" / "bad.webp").write_bytes(damaged)
    messages = []
    for engine in ("native", "reference"):
        with pytest.raises(SampleError, match=r"bad\.webp") as error:
            batches(tmp_path / "images", engine=engine, transforms=[RandomResizedCrop(16)])
        messages.append(error.value.message)
        assert isinstance(error.value, DecodeError)
    assert messages[0] == messages[1]


def test_a_webp_may_not_have_more_pixels_than_are_allowed() -> None:
    with pytest.raises(ValueError, match="33x28 pixels"):
        _native.transcode(WHOLE, "none", 0, 0, "raw", 90, "420", 33 * 28 - 1)
