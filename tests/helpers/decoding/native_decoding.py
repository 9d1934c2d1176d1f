"""Decoding in C++, and damaged files that C++ and Pillow must refuse in the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.decoding.converted_images import all_images

from stoker import _native
from stoker.augment import RandomResizedCrop
from stoker.errors import DecodeError, SampleError
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_for_reference, decode_rgb


def decode_in_cpp(data: bytes, max_pixels: int = 10**6) -> np.ndarray[Any, Any]:
    """Returns the (H, W, 3) uint8 pixels that the C++ module decodes.

    Raises:
        ValueError: The C++ module does not decode it.
    """
    pixels, height, width = _native.transcode(data, "none", 0, 0, "raw", 90, "420", max_pixels)
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def assert_refused_in_the_words_of_pillow(data: bytes, codec: Codec, sides: tuple[int, int]) -> None:
    """Checks that C++ refuses a damaged file, and that the error is the one that Pillow alone leads to."""
    with pytest.raises(ValueError, match=r"\w"):
        decode_in_cpp(data)
    with pytest.raises(Exception, match=r"\w") as expected:
        decode_for_reference(data, codec, *sides)
    with pytest.raises(type(expected.value)) as raised:
        decode_rgb(data, codec, *sides)
    # The rest is the address of a file object.
    assert str(raised.value).partition("<")[0] == str(expected.value).partition("<")[0]


def assert_bad_sample_of_every_engine(folder: Path, name: str, data: bytes, message: str) -> None:
    """Checks that a loader of a damaged file raises an error of the same words on each engine."""
    (folder / "images" / "a").mkdir(parents=True)
    (folder / "images" / "a" / name).write_bytes(data)
    messages = set()
    for engine in ("native", "reference"):
        with pytest.raises(SampleError, match=message) as raised:
            all_images(folder / "images", batch_size=6, transforms=[RandomResizedCrop(16)], engine=engine)
        assert isinstance(raised.value, DecodeError)
        messages.add(raised.value.message)
    assert len(messages) == 1
