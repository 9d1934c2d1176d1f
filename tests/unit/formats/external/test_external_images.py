"""Images in external shards: broken ones, and pixels in a Datum."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.shards.external_shards import example, write_lmdb, write_tfrecord
from numpy.typing import NDArray

import stoker
from stoker.augment import CenterCrop
from stoker.errors import SourceError
from stoker.formats.codecs.codec import Codec
from stoker.formats.containers.messages.example import Feature
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.external import external_index

Jpeg = Callable[..., bytes]


def test_broken_images_are_skipped_and_counted(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_tfrecord(
        tmp_path / "x", [example(make_jpeg(0), 0), example(b"broken", 1), example(make_jpeg(2), 2)]
    )
    manifest = external_index.index([path], tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert manifest.skipped == {"image whose header cannot be read": 1}
    assert dataset.labels.tolist() == [0, 2]
    assert dataset.samples([0, 1]).record.tolist() == [0, 2]
    assert stoker.verify(tmp_path / "into").ok


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"image": b"x"}, "no bytes in the feature 'image/encoded'"),
        ({"image/encoded": [1]}, "no bytes in the feature 'image/encoded'"),
        ({"image/encoded": []}, "no bytes in the feature 'image/encoded'"),
        ({"image/encoded": [b"x", b"y"]}, "'image/encoded' holds 2 images"),
        ({"image/class/label": [1, 2]}, "'image/class/label' is not one integer"),
        ({"image/class/label": b"cat"}, "'image/class/label' is not one integer"),
        ({"image/format": b"raw", "image/height": [9]}, "raw pixels are not 9 x 0 RGB"),
    ],
)
def test_records_without_a_usable_image_or_label_are_refused(
    tmp_path: Path, make_jpeg: Jpeg, features: dict[str, Feature], message: str
) -> None:
    image: dict[str, Feature] = {} if "image" in features else {"image/encoded": make_jpeg(0)}
    path = write_tfrecord(tmp_path / "x", [example(make_jpeg(0), 0), {**image, **features}])
    with pytest.raises(SourceError, match=message) as caught:
        external_index.index([path], tmp_path / "into")
    assert (caught.value.shard, caught.value.record) == ("x", 1)
    assert not (tmp_path / "into" / MANIFEST_NAME).exists()


def planes(pixels: NDArray[np.uint8]) -> bytes:
    """The bytes of a Datum of (channels, 4, 5) uint8 with label 7."""
    length = bytes([pixels.nbytes])
    return b"\x08%c\x10\x04\x18\x05\x22%b%b\x28\x07" % (len(pixels), length, pixels.tobytes())


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_pixels_in_a_datum_are_bgr_or_grey_planes(tmp_path: Path, engine: str) -> None:
    bgr = np.random.default_rng(0).integers(0, 256, (3, 4, 5), np.uint8)
    values = {b"color": planes(bgr), b"grey": planes(bgr[:1])}
    external_index.index([write_lmdb(tmp_path / "x", values)], tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    assert dataset.samples([0, 1]).codec.tolist() == [Codec.PLANES] * 2
    assert dataset.labels.tolist() == [7, 7]
    assert stoker.verify(tmp_path / "into", decode=True).ok
    options: Any = {"transforms": [CenterCrop((4, 5))], "dtype": "uint8", "layout": "NCHW"}
    with stoker.ImageLoader(dataset, batch_size=2, engine=engine, **options) as loader:
        ((images, _),) = loader
    assert np.array_equal(images, [bgr[::-1], np.repeat(bgr[:1], 3, axis=0)])


def test_two_channels_or_floats_in_a_datum_are_refused(tmp_path: Path) -> None:
    two = planes(np.zeros((2, 4, 5), np.uint8))
    with pytest.raises(SourceError, match="pixels of 2 channels"):
        external_index.index([write_lmdb(tmp_path / "x", {b"a": two})], tmp_path / "into")
    with pytest.raises(SourceError, match="holds floats"):
        external_index.index([write_lmdb(tmp_path / "y", {b"a": b"\x32\x04" + bytes(4)})], tmp_path / "into")


def test_pixels_in_a_datum_without_a_size_are_skipped_and_counted(tmp_path: Path) -> None:
    good = planes(np.zeros((3, 4, 5), np.uint8))
    minus = b"\xfc" + b"\xff" * 8 + b"\x01"  # -4, a varint of 64 bits
    negative = b"\x08\x01\x10%b\x18%b\x22\x10%b\x28\x00" % (minus, minus, bytes(16))
    empty = b"\x08\x01\x10\x00\x18\x07\x22\x00\x28\x00"
    path = write_lmdb(tmp_path / "x", {b"a": good, b"b": negative, b"c": empty})
    manifest = external_index.index([path], tmp_path / "into")
    assert manifest.skipped == {"image whose header cannot be read": 2}
    assert stoker.open(tmp_path / "into").keys([0]) == ["a"]
