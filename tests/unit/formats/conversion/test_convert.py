"""Converting: the contents of the dataset. Other files here test skipped and refused sources."""

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import read_files
from helpers.images import encode
from helpers.options import convert
from PIL import Image

import stoker
from stoker.errors import DatasetError
from stoker.formats.codecs.codec import Codec
from stoker.formats.containers.protobuf import parse_example
from stoker.formats.sources.class_folder import list_folder
from stoker.formats.sources.source import Source

Encode = Callable[..., bytes]

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_images_and_classes_of_a_folder_are_stored_as_they_are(
    photos: Path, tmp_path: Path, container: Any
) -> None:
    summary = convert(photos, tmp_path / "out", container=container, seed=5, shards=4)
    dataset = stoker.open(tmp_path / "out")
    assert (summary.written, summary.shards, summary.skipped, len(dataset)) == (30, 4, {}, 30)
    assert summary.bytes == sum(dataset.data_sizes)
    assert dataset.classes == ("cat", "dog", "eel")
    keys = dataset.keys(range(30))
    assert keys != sorted(keys)
    convert(photos, tmp_path / "sorted", container=container)
    assert sorted(keys) == stoker.open(tmp_path / "sorted").keys(range(30))
    for position, key in enumerate(keys):
        assert dataset.read(position) == (photos / key).read_bytes()
        assert dataset.classes[dataset.labels[position]] == key.split("/")[0]
    samples = dataset.samples(range(30))
    assert set(zip(samples.height.tolist(), samples.width.tolist(), strict=True)) == {(24, 32)}
    assert stoker.verify(tmp_path / "out", decode=True).ok
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos", "sorted"]
    names = {"dataset.json", "index.arrow", "sha256.json", "skipped.jsonl"}
    assert {name for name in read_files(tmp_path / "out") if not name.startswith("shard-")} == names


@pytest.mark.parametrize(
    ("resize", "encoding", "megabytes"),
    [
        (None, "keep", 0.5),
        (None, "raw", 5),
        (None, "png", 2),
        ("shorter=100", "raw", 0.5),
        ("longer=100", "keep", 0.03),
    ],
)
def test_shards_have_about_the_size_of_the_option(
    tmp_path: Path, photographs: list[Path], resize: str | None, encoding: Any, megabytes: float
) -> None:
    for number, file in enumerate(photographs[::5]):
        target = tmp_path / "photos" / "some" / f"{number}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    size = int(megabytes * 1e6)
    stoker.convert(tmp_path / "photos", tmp_path / "out", resize=resize, encoding=encoding, shard_size=size)
    sizes = stoker.open(tmp_path / "out").data_sizes
    assert len(sizes) > 1
    assert size / 3 < np.mean(sizes) < 1.5 * size


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_threads_and_times_of_files_change_no_byte(photos: Path, tmp_path: Path, container: Any) -> None:
    options: dict[str, Any] = {
        "format": container,
        "seed": 1,
        "shards": 3,
        "val": "20%",
        "resize": "shorter=16",
    }
    copy = tmp_path / "elsewhere/photos"
    shutil.copytree(photos, copy, copy_function=shutil.copyfile)  # with other times
    convert(photos, tmp_path / "one", num_threads=1, **options)
    convert(copy, tmp_path / "two", num_threads=5, **options)
    assert read_files(tmp_path / "one") == read_files(tmp_path / "two")


def test_the_features_of_a_record_agree_with_the_index(
    photos: Path, tmp_path: Path, encode_picture: Encode
) -> None:
    (photos / "eel/0.jpg").write_bytes(encode_picture(3, orientation=6))
    convert(photos, tmp_path / "out", shards=1)
    dataset = stoker.open(tmp_path / "out")
    data = dataset.data_files[0].read_bytes()
    position = dataset.keys(range(30)).index("eel/0.jpg")
    sample = dataset.samples([position])
    assert (sample.height[0], sample.width[0], sample.orientation[0]) == (32, 24, 6)
    lines = dataset.data_files[0].with_suffix(".idx").read_text().splitlines()
    start, size = map(int, lines[position].split())
    record = data[start + 12 : start + size - 4]
    features: Any = parse_example(record)

    def text(name: str) -> bytes:
        (span,) = features[name]
        return record[span.offset : span.offset + span.length]

    assert text("image/encoded") == (photos / "eel/0.jpg").read_bytes()
    assert (text("image/class/text"), text("image/filename")) == (b"eel", b"eel/0.jpg")
    assert text("image/format") == b"JPEG"
    assert features["image/class/label"] == [2]
    assert (features["image/height"], features["image/width"]) == ([32], [24])
    assert features["image/orientation"] == [6]


@pytest.mark.parametrize(
    ("resize", "size"),
    [
        ("shorter=12", (12, 16)),
        ("longer=16", (12, 16)),
        ("squash=10x11", (10, 11)),
        ("crop=12x12", (12, 12)),
        ("fill=20x20", (20, 20)),
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP"])
def test_every_resize_mode_gives_its_size(
    photos: Path, tmp_path: Path, resize: str, size: tuple[int, int], kind: str, encode_picture: Encode
) -> None:
    for file in photos.glob("*/*.jpg"):
        file.write_bytes(encode_picture(1, kind))
    convert(photos, tmp_path / "out", resize=resize)
    samples = stoker.open(tmp_path / "out").samples(range(30))
    assert set(zip(samples.height.tolist(), samples.width.tolist(), strict=True)) == {size}
    assert set(samples.codec.tolist()) == {Codec.JPEG if kind == "JPEG" else Codec.PNG}
    assert stoker.verify(tmp_path / "out", decode=True).ok


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_the_orientation_of_encoded_images_is_applied(
    photos: Path, tmp_path: Path, kind: str, encode_picture: Encode
) -> None:
    (photos / "cat/0.jpg").write_bytes(encode_picture(4, kind, orientation=6))
    convert(photos, tmp_path / "out", encoding="raw")
    dataset = stoker.open(tmp_path / "out")
    sample = dataset.samples([0])
    assert (sample.height[0], sample.width[0], sample.orientation[0]) == (32, 24, 1)
    pixels = np.frombuffer(dataset.read(0), np.uint8).reshape(32, 24, 3).astype(int)
    upright = Image.open(io.BytesIO(encode_picture(4, "PNG")))
    expected = np.array(upright.transpose(Image.Transpose.ROTATE_270)).astype(int)
    assert np.abs(pixels - expected).mean() < 8


def test_raw_pixels_are_resized_as_pillow_does(photos: Path, tmp_path: Path) -> None:
    convert(photos, tmp_path / "out", resize="squash=18x24", encoding="raw")
    pixels = np.frombuffer(stoker.open(tmp_path / "out").read(7), np.uint8).reshape(18, 24, 3).astype(int)
    expected = np.array(Image.open(photos / "cat/7.jpg").resize((24, 18), Image.Resampling.BILINEAR))
    assert np.abs(pixels - expected.astype(int)).max() <= 6


def test_files_that_have_the_encoding_already_are_kept(
    photos: Path, tmp_path: Path, encode_picture: Encode
) -> None:
    (photos / "cat/0.png").write_bytes(encode_picture(0, "PNG"))
    convert(photos, tmp_path / "out", encoding="jpeg")
    dataset = stoker.open(tmp_path / "out")
    assert dataset.keys([0, 1]) == ["cat/0.jpg", "cat/0.png"]
    assert dataset.read(0) == (photos / "cat/0.jpg").read_bytes()
    assert dataset.read(1).startswith(b"\xff\xd8\xff")


@pytest.mark.parametrize(
    ("options", "quality", "subsampling"),
    [({"quality": 50}, 50, "4:2:0"), ({"subsampling": "444"}, 90, "4:4:4")],
)
def test_a_quality_or_subsampling_encodes_jpegs_again(
    photos: Path, tmp_path: Path, options: dict[str, Any], quality: int, subsampling: str
) -> None:
    convert(photos, tmp_path / "out", encoding="jpeg", **options)
    stored = Image.open(io.BytesIO(stoker.open(tmp_path / "out").read(0)))
    source = Image.open(photos / "cat/0.jpg")
    expected = Image.open(io.BytesIO(encode(source, quality=quality, subsampling=subsampling)))
    assert stored.quantization == expected.quantization
    assert stored.layer == expected.layer
    assert np.abs(np.asarray(stored).astype(int) - np.asarray(source)).mean() < 8


def test_each_split_is_a_dataset(photos: Path, tmp_path: Path) -> None:
    summary = stoker.convert(photos, tmp_path / "out", val="20%", test=0.1, seed=2)
    assert {split: path.name for split, path in summary.datasets.items()} == {
        name: name for name in ("train", "val", "test")
    }
    keys: list[str] = []
    for split, number in (("train", 21), ("val", 6), ("test", 3)):
        dataset = stoker.open(tmp_path / "out" / split)
        assert np.bincount(dataset.labels).tolist() == [number // 3] * 3
        keys += dataset.keys(range(len(dataset)))
    assert sorted(keys) == list_folder(Source(photos)).keys.to_pylist()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["test", "train", "val"]


def test_labels_and_columns_of_a_list_are_in_the_dataset(photos: Path, tmp_path: Path) -> None:
    lines = [f"photos/cat/{i}.jpg,{'ab'[i % 2]},{i * 1.5},note {i}" for i in range(10)]
    (tmp_path / "list.csv").write_text("path,label,score,note\n" + "\n".join(lines))
    convert(tmp_path / "list.csv", tmp_path / "out", seed=3)
    dataset = stoker.open(tmp_path / "out")
    numbers = [int(key.split("/")[-1].split(".")[0]) for key in dataset.keys(range(10))]
    assert dataset.labels.tolist() == [i % 2 for i in numbers]
    assert dataset.column("score").tolist() == [i * 1.5 for i in numbers]
    assert dataset.index.arrow("note").to_pylist() == [f"note {i}" for i in numbers]
    entries = [{"path": f"photos/cat/{i}.jpg", "label": list(range(i))} for i in range(4)]
    (tmp_path / "list.json").write_text(json.dumps(entries))
    convert(tmp_path / "list.json", tmp_path / "several")
    labels = stoker.open(tmp_path / "several").index.arrow("label").to_pylist()
    assert labels == [[], [0], [0, 1], [0, 1, 2]]
    assert stoker.verify(tmp_path / "several").ok


@pytest.mark.usefixtures("every_event")
def test_a_file_that_is_newer_than_the_dataset_is_named(
    photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stoker.convert(photos, tmp_path / "out")
    os.utime(photos / "dog/3.jpg", (4e9, 4e9))  # the clock of another machine
    with pytest.raises(DatasetError, match="there is a dataset already"):
        stoker.convert(photos, tmp_path / "out")
    assert "dog/3.jpg is newer than the dataset" in caplog.text
