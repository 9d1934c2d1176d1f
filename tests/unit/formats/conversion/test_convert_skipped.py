"""Converting: the files that are skipped, their reasons, and where a dataset records them."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets import read_files
from helpers.images import encode
from helpers.options import convert
from PIL import Image, UnidentifiedImageError

import stoker
from stoker.augment import CenterCrop

Encode = Callable[..., bytes]

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def blank(height: int, width: int) -> bytes:
    """A black PNG."""
    return encode(Image.new("L", (width, height)), "PNG")


BROKEN: dict[str, tuple[Callable[[bytes, Encode], bytes], str]] = {
    "empty": (lambda data, encode: b"", "not an image"),
    "text": (lambda data, encode: b"no image", "not an image"),
    "cut in the header": (lambda data, encode: data[:30], "broken image"),
    "cut in the pixels": (lambda data, encode: data[:-20], "broken image"),
    "no end marker": (lambda data, encode: data[:-2], "broken image"),
    "zeros": (lambda data, encode: bytes(500), "not an image"),
    "PNG cut off": (lambda data, encode: encode(1, "PNG")[:-12], "broken image"),
    "PNG of 8 bytes": (lambda data, encode: b"\x89PNG\r\n\x1a\n", "broken image"),
    "WebP cut off": (lambda data, encode: encode(1, "WEBP")[:-9], "broken image"),
    "too large": (lambda data, encode: blank(2000, 2000), "too many pixels"),
    "a bomb": (
        lambda data, encode: encode(1, "PNG")[:16] + b"\0\1\0\0\0\1\0\0" + encode(1, "PNG")[24:],
        "too many pixels",
    ),
}


@pytest.mark.parametrize("damage", BROKEN)
@pytest.mark.parametrize("name", ["0.jpg", "5.jpg", "9.jpg"])
def test_broken_images_are_skipped_and_counted(
    photos: Path, tmp_path: Path, damage: str, name: str, encode_picture: Encode
) -> None:
    spoil, reason = BROKEN[damage]
    path = photos / "dog" / name
    path.write_bytes(spoil(path.read_bytes(), encode_picture))
    summary = convert(photos, tmp_path / "out", max_pixels=1_000_000)
    dataset = stoker.open(tmp_path / "out")
    assert (summary.written, summary.skipped) == (29, {reason: 1})
    assert dict(dataset.manifest.skipped) == {reason: 1}
    (line,) = (tmp_path / "out/skipped.jsonl").read_text().splitlines()
    assert json.loads(line)["key"] == f"dog/{name}"
    assert json.loads(line)["reason"] == reason
    assert f"dog/{name}" not in dataset.keys(range(29))
    assert stoker.verify(tmp_path / "out", decode=True).ok


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM"])
def test_an_image_cut_short_is_skipped_though_its_pixels_are_not_decoded(
    tmp_path: Path, kind: str, encode_picture: Encode
) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    whole = encode_picture(1, kind)
    (tmp_path / "photos" / "a" / "whole").write_bytes(whole)
    (tmp_path / "photos" / "a" / "cut").write_bytes(whole[: len(whole) * 3 // 4])
    summary = stoker.convert(tmp_path / "photos", tmp_path / "out")
    assert (summary.written, summary.skipped) == (1, {"broken image": 1})


def test_a_png_with_a_damaged_chunk_is_skipped(tmp_path: Path, encode_picture: Encode) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    whole = encode_picture(1, "PNG")
    damaged = bytearray(whole)
    damaged[damaged.index(b"IDAT") + 10] ^= 1
    bad_text = whole[:33] + b"\0\0\0\1tEXtx----" + whole[33:]
    bad_comment = whole[:-12] + b"\0\0\0\1tEXtx----" + whole[-12:]  # all pixels lie before it
    images = {"comment": bad_comment, "whole": whole, "damaged": damaged, "bad_text": bad_text}
    for name, data in images.items():
        (tmp_path / "photos" / "a" / name).write_bytes(data)
    stoker.convert(tmp_path / "photos", tmp_path / "out")
    dataset = stoker.open(tmp_path / "out")
    assert dataset.keys([0, 1]) == ["a/comment", "a/whole"]
    for engine in ("native", "reference"):
        (batch,) = stoker.ImageLoader(dataset, batch_size=2, engine=engine, transforms=[CenterCrop(8)])
        assert np.array_equal(*batch.image)
    skipped = (tmp_path / "out" / "skipped.jsonl").read_text()
    assert "IDAT does not match" in skipped
    assert "tEXt does not match" in skipped
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(bad_text))


def test_an_image_whose_pixels_cannot_be_decoded_is_skipped(
    photos: Path, tmp_path: Path, encode_picture: Encode
) -> None:
    (photos / "dog/3.jpg").write_bytes(encode_picture(1, "PNG")[:60] + bytes(80) + b"IEND")
    (photos / "dog/4.jpg").write_bytes((photos / "dog/4.jpg").read_bytes() + b"appended" * 9000)
    summary = stoker.convert(photos, tmp_path / "out", resize="shorter=8")
    assert (summary.written, summary.skipped) == (29, {"broken image": 1})


def test_a_thumbnail_does_not_hide_that_the_image_is_cut_off(
    photos: Path, tmp_path: Path, encode_picture: Encode
) -> None:
    path = photos / "dog/3.jpg"
    data, thumbnail = path.read_bytes(), encode_picture(1, height=6, width=8)
    segment = b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail
    path.write_bytes(data[:2] + segment + data[2:])
    assert stoker.convert(photos, tmp_path / "whole").written == 30
    path.write_bytes(data[:2] + segment + data[2:-2])
    assert stoker.convert(photos, tmp_path / "cut").skipped == {"broken image": 1}


def test_skips_are_written_in_the_order_of_their_keys(
    photos: Path, tmp_path: Path, encode_picture: Encode
) -> None:
    for i in range(10):
        (photos / f"eel/note{i}.txt").write_text("x")
        (photos / f"cat/{i}.jpg").write_text("x")
    (photos / "cat/ok.jpg").write_bytes(encode_picture(1))
    for out in ("first", "second"):
        convert(photos, tmp_path / out, seed=1, shards=5)
    assert read_files(tmp_path / "first") == read_files(tmp_path / "second")
    keys = [json.loads(line)["key"] for line in (tmp_path / "first/skipped.jsonl").read_text().splitlines()]
    assert keys == sorted(keys)
    assert len(keys) == 20


def test_a_shard_without_samples_is_left_out(photos: Path, tmp_path: Path) -> None:
    for i in range(10):
        (photos / f"cat/{i}.jpg").write_bytes((photos / f"cat/{i}.jpg").read_bytes()[:-2])
    summary = convert(photos, tmp_path / "out", shards=3, allow_missing_classes=True)
    dataset = stoker.open(tmp_path / "out")
    assert (summary.written, summary.shards) == (20, 2)
    assert [shard.name for shard in dataset.manifest.shards] == [
        "shard-00000-of-00002.tfrecord",
        "shard-00001-of-00002.tfrecord",
    ]
    assert stoker.verify(tmp_path / "out", decode=True).ok


def test_splits_without_samples_are_empty_datasets_and_the_first_has_the_skips_of_the_listing(
    photos: Path, tmp_path: Path
) -> None:
    (photos / "dog/notes.txt").write_text("x")
    for name in ("first", "out"):
        stoker.convert(photos, tmp_path / name, val="10%")
        splits = [stoker.open(tmp_path / name / split) for split in ("train", "val")]
        assert [dict(split.manifest.skipped).get("not an image") for split in splits] == [1, None]
        for key in splits[1].keys(range(len(splits[1]))):
            (photos / key).write_bytes((photos / key).read_bytes()[:-2])
    assert [len(split) for split in splits] == [27, 0]
