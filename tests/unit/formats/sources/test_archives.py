"""Tests of RecordIO files and of MDS shards as sources of conversions."""

from __future__ import annotations

import bz2
import gzip
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.datasets import converted, jpeg, read_all
from helpers.options import convert_options
from helpers.shards import MAGIC, image, member, write_mds, write_members, write_recordio, write_samples

import stoker
from stoker.errors import ConfigError, CorruptRecordError, DecodeError, SourceError
from stoker.formats.sources import archives as tar
from stoker.formats.sources.registry import find_format
from stoker.formats.sources.source import Source

MakeImage = Callable[..., bytes]

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

COLUMNS = {"image": "jpeg", "label": "int", "score": "float32", "height": "int16", "text": "str"}
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zstd": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    "br": lambda data: pa.Codec("brotli").compress(data, asbytes=True),
    "snappy": lambda data: pa.Codec("snappy").compress(data, asbytes=True),
}


@pytest.fixture
def images(encode_picture: MakeImage) -> list[bytes]:
    return [encode_picture(i, "JPEG") for i in range(8)]


def mosaic(images: list[bytes], folder: Path) -> Path:
    samples = [
        {"image": data, "label": i % 2, "score": i / 2, "height": i, "text": f"text {i}"}
        for i, data in enumerate(images)
    ]
    return write_mds(folder, COLUMNS, [samples[:5], samples[5:]], ["sha1"])


def compress(folder: Path, kind: str) -> None:
    """Compress all shards, as MDSWriter does without ``keep_zip``."""
    described = json.loads((folder / "index.json").read_text())
    for shard in described["shards"]:
        plain = folder / shard["raw_data"]["basename"]
        zipped = COMPRESS[kind](plain.read_bytes())
        plain.with_name(f"{plain.name}.{kind}").write_bytes(zipped)
        shard["compression"] = kind
        shard["zip_data"] = {"basename": f"{plain.name}.{kind}", "bytes": len(zipped), "hashes": {}}
        plain.unlink()
    (folder / "index.json").write_text(json.dumps(described))


@pytest.mark.parametrize("labels", [1, 2])
def test_recordio_files_are_converted(images: list[bytes], tmp_path: Path, labels: int) -> None:
    (folder := tmp_path / "rec").mkdir()
    for number in range(2):
        some = range(4 * number, 4 * number + 4)
        label = [float(number)] * labels
        values = [image(images[i], label if labels > 1 else label[0], i) for i in some]
        write_recordio(folder / f"{number}.rec", values, with_index=True)
    options = {"label_type": "several"} if labels > 1 else {}
    dataset = converted(folder, tmp_path / "shards", classes=["cat", "dog"], **options)
    assert read_all(dataset) == images
    assert dataset.classes == ("cat", "dog")
    classes = [i // 4 for i in range(8)]
    expected = [[label] * labels for label in classes] if labels > 1 else classes
    assert [sample.label for sample in dataset] == expected
    assert dataset.keys([0, 7]) == ["0", "7"]


def test_an_image_in_several_pieces_is_joined(images: list[bytes], tmp_path: Path) -> None:
    cut = images[0][:-2] + b"\0" * (-(len(images[0]) - 2) % 4) + MAGIC + b"abcd" + MAGIC + b"\xff\xd9"
    values = [image(data, 0, number) for number, data in enumerate([cut, *images], 1)]
    file = write_recordio(tmp_path / "a.rec", values)
    for seed in (None, 0):
        dataset = converted(file, tmp_path / f"{seed}", seed=seed)
        assert sorted(read_all(dataset)) == sorted([cut, *images])


@pytest.mark.parametrize("kind", ["plain", *COMPRESS])
def test_shards_of_mosaic_are_converted(images: list[bytes], tmp_path: Path, kind: str) -> None:
    folder = mosaic(images, tmp_path / "mds")
    if kind != "plain":
        compress(folder, kind)
    dataset = converted(folder, tmp_path / "shards", fields={"text": None, "score": "points"})
    assert read_all(dataset) == images
    assert dataset.labels.tolist() == [0, 1] * 4
    assert dataset.column("points").tolist() == [i / 2 for i in range(8)]
    assert dataset.column("height_").tolist() == list(range(8))
    assert "text" not in dataset.columns
    stoker.convert(folder, tmp_path / "split", seed=1, val="25%")
    parts = [read_all(stoker.open(tmp_path / "split" / split)) for split in ("train", "val")]
    assert [len(part) for part in parts] == [6, 2]
    assert sorted(parts[0] + parts[1]) == sorted(images)


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_compressed_shard_that_is_damaged_is_named(images: list[bytes], tmp_path: Path, kind: str) -> None:
    folder = mosaic(images, tmp_path / "mds")
    compress(folder, kind)
    file = folder / f"shard.00001.mds.{kind}"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(CorruptRecordError, match=rf"shard\.00001\.mds\.{kind}"):
        stoker.convert(folder, tmp_path / "shards")
    assert not (tmp_path / "shards" / "dataset.json").exists()


def test_shards_at_a_url_are_converted(images: list[bytes], tmp_path: Path, memory: Any) -> None:
    folder = mosaic(images, tmp_path / "mds")
    compress(folder, "zstd")
    rec = write_recordio(tmp_path / "a.rec", [image(data, 0, i) for i, data in enumerate(images)])
    for file in [*folder.iterdir(), rec]:
        memory.pipe(f"/bucket/{file.parent.name if file != rec else 'rec'}/{file.name}", file.read_bytes())
    assert read_all(converted("memory://bucket/rec/a.rec", tmp_path / "a")) == images
    assert read_all(converted("memory://bucket/mds", tmp_path / "b")) == images


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Two archives of three samples; classes are names in .cls and numbers in .json."""
    (tmp_path / "tars").mkdir()
    for shard in range(2):
        samples = []
        for i in range(3):
            fields = {"label": i, "width": 16} if i else {"label": 0}
            texts = {"cls": ["dog", "cat"][i % 2], "txt": f"photo {i}", "json": fields}
            samples.append({"__key__": f"../{shard}/{i}", "jpg": jpeg(3 * shard + i), **texts})
        write_samples(tmp_path / "tars" / f"{shard}.tar", samples)
    return tmp_path / "tars"


@pytest.mark.parametrize("source", ["", "{0..1}.tar", "*.tar"])
def test_archives_are_converted_without_unpacking(archives: Path, tmp_path: Path, source: str) -> None:
    assert stoker.convert(archives / source, tmp_path / "target").written == 6
    assert stoker.convert(archives / source, tmp_path / "target").already
    dataset = stoker.open(tmp_path / "target")
    assert dataset.keys(range(6)) == [f"../{shard}/{i}" for shard in range(2) for i in range(3)]
    assert [dataset.read(i) for i in range(6)] == [jpeg(i) for i in range(6)]
    assert dataset.classes == ("cat", "dog")
    assert dataset.labels.tolist() == [1, 0, 1] * 2
    assert dataset.strings("caption", range(3)) == ["photo 0", "photo 1", "photo 2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target", "tars"]
    assert stoker.verify(tmp_path / "target", decode=True).ok


def test_samples_that_are_left_out_are_counted_and_named(tmp_path: Path) -> None:
    path = write_members(
        tmp_path / "x.tar",
        [
            ("good.jpg", jpeg(0)),
            ("cut.jpg", jpeg(1)[:-40]),
            ("text.txt", b"no image"),
            (member("link.jpg", tarfile.SYMTYPE, "/etc/passwd"), b""),
        ],
    )
    summary = stoker.convert(path, tmp_path / "target")
    assert summary.skipped == {
        "broken image": 1,
        "image that is a link in the archive": 1,
        "sample without an image (jpg;jpeg;png;webp); it has txt": 1,
    }
    lines = (tmp_path / "target" / "skipped.jsonl").read_text().splitlines()
    assert [line.split('"')[3] for line in lines] == ["cut", "link", "text"]
    with pytest.raises(SourceError, match="1 x image that is a link in the archive"):
        stoker.convert(path, tmp_path / "strict", strict=True)
    cut = write_members(tmp_path / "cut.tar", [("cut.jpg", jpeg(1)[:-40])])
    with pytest.raises(DecodeError, match="broken image"):
        stoker.convert(cut, tmp_path / "strict", strict=True)


def test_an_archive_that_is_cut_short_stops_the_conversion(archives: Path, tmp_path: Path) -> None:
    data = (archives / "1.tar").read_bytes()
    (archives / "1.tar").write_bytes(data[: data.index(b"../1/1.jpg") + 600])
    with pytest.raises(CorruptRecordError, match=r"member \.\./1/1\.jpg claims") as caught:
        stoker.convert(archives, tmp_path / "target")
    assert (caught.value.shard, caught.value.record, caught.value.key) == ("1.tar", 1, "../1/1")
    assert not (tmp_path / "target").exists()


def test_an_archive_that_changes_after_it_was_listed_is_noticed(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tar.list_tar

    def change(source: Any) -> Any:
        listing = listed(source)
        with (archives / "0.tar").open("ab") as file:
            file.write(bytes(512))
        return listing

    # No code of the user runs between listing and reading, so the test lists the source itself.
    monkeypatch.setattr(tar, "list_tar", change)
    summary = stoker.convert(archives, tmp_path / "target")
    assert (summary.written, summary.skipped) == (3, {"changed since it was listed": 3})


def test_listing_an_archive_at_a_url_fetches_few_of_its_bytes(
    tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = jpeg(0, 600, 600)
    samples = [{"__key__": str(i), "jpg": noise, "cls": i} for i in range(4)]
    data = write_samples(tmp_path / "x.tar", samples).read_bytes()
    memory.pipe("/bucket/tars/x.tar", data)
    fetched: list[int] = []
    read = type(memory).cat_file

    def count(self: Any, path: str, **options: Any) -> bytes:
        fetched.append(len(part := bytes(read(self, path, **options))))
        return part

    monkeypatch.setattr(type(memory), "cat_file", count)
    source = Source("memory://bucket/tars")
    assert find_format(source).name == "webdataset"
    listing = tar.list_tar(source)
    assert listing.sizes.tolist() == [len(noise)] * 4
    assert sum(fetched) < len(data) // 3
    assert stoker.convert("memory://bucket/tars/x.tar", tmp_path / "there").written == 4
    stoker.convert(tmp_path / "x.tar", tmp_path / "here")
    assert stoker.open(tmp_path / "there").read(3) == stoker.open(tmp_path / "here").read(3) == noise


def test_fields_choose_the_label_and_the_columns(archives: Path, tmp_path: Path) -> None:
    fields = {"json:label": "label", "txt": None, "json:width": "across"}
    options = {"fields": fields, "resize": "squash=8x8", "format": "lmdb"}
    dataset = converted(archives, tmp_path / "target", **options)
    assert dataset.labels.tolist() == [0, 1, 2] * 2
    assert "caption" not in dataset.columns
    assert dataset.column("across")[1:3].tolist() == [16, 16]
    assert "label" not in converted(archives, tmp_path / "other", fields={"cls": None}).columns
    with pytest.raises(ConfigError, match="cannot have the name 'crc'"):
        converted(archives, tmp_path / "none", fields={"txt": "crc"})
    (tmp_path / "list.csv").write_text("path,label\na.jpg,1\n")
    with pytest.raises(ConfigError, match="fields is for sources of the format table or mds or webdataset"):
        converted(tmp_path / "list.csv", tmp_path / "none", fields={"a": "b"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.tar.gz", "the file is compressed"),
        ("none.tar", "there is no none.tar"),
        ("mds", "raw pixels"),
        ("some.tar", "the sample has no class, and others have one"),
        ("none.mds", "there is no none.mds"),
    ],
)
def test_shards_that_cannot_be_used_are_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8b" + bytes(600))
    pil = np.array([4, 4, 3], "<u4").tobytes() + b"RGB" + bytes(48)
    write_mds(tmp_path / "mds", {"image": "pil", "label": "int"}, [[{"image": pil, "label": 0}]])
    some = [{"__key__": "a", "jpg": jpeg(0), "cls": 1}, {"__key__": "b", "jpg": jpeg(0)}]
    write_samples(tmp_path / "some.tar", some)
    with pytest.raises((CorruptRecordError, SourceError), match=message):
        stoker.convert(tmp_path / name, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_archives_without_labels_are_named_and_each_may_be_a_class(
    images: list[bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("n02", "n01"):
        (tmp_path / "tars").mkdir(exist_ok=True)
        write_members(tmp_path / f"tars/{name}.tar", [(f"{name}_{i}.jpg", images[i]) for i in range(2)])
    assert converted(tmp_path / "tars", tmp_path / "none").tasks == frozenset()
    assert "have no labels; label_column names" in caplog.text
    caplog.clear()
    converted(tmp_path / "tars", tmp_path / "asked", unlabelled=True)
    assert not caplog.messages
    dataset = converted(tmp_path / "tars", tmp_path / "classes", label_type="shard")
    assert (dataset.classes, dataset.labels.tolist()) == (("n01", "n02"), [0, 0, 1, 1])


def test_a_merged_index_of_mosaic_streaming_names_shards_in_inner_folders(
    images: list[bytes], tmp_path: Path
) -> None:
    merged: list[dict[str, Any]] = []
    for part in ("00000", "00001"):
        folder = mosaic(images, tmp_path / "set" / part)
        stated = json.loads((folder / "index.json").read_text())["shards"]
        for shard in stated:
            shard["raw_data"]["basename"] = f"{part}/{shard['raw_data']['basename']}"
        merged += stated
    (tmp_path / "set" / "index.json").write_text(json.dumps({"version": 2, "shards": merged}))
    assert stoker.convert(tmp_path / "set", tmp_path / "out").written == 2 * len(images)
    assert len(stoker.open(tmp_path / "set")) == 2 * len(images)
    (tmp_path / "set" / merged[1]["raw_data"]["basename"]).unlink()
    with pytest.raises(SourceError, match=r"1 of the 4 shards of index\.json are missing, such as 00000"):
        stoker.convert(tmp_path / "set", tmp_path / "again")


def test_archives_beside_tables_and_suffixes_with_dots_are_read(images: list[bytes], tmp_path: Path) -> None:
    folder = tmp_path / "cc3m"
    folder.mkdir()
    samples = [{"__key__": f"{i}", "05.jpg": one, "cls": i} for i, one in enumerate(images)]
    write_samples(folder / "00000.tar", samples)
    pq.write_table(pa.table({"url": ["a"], "key": ["0"]}), folder / "00000.parquet")
    with pytest.raises(SourceError, match=r"without an image \(jpg;jpeg;png;webp\); it has \*\.jpg, cls"):
        stoker.convert(folder, tmp_path / "out")
    options = convert_options({"image_column": "jpg;*.jpg"})
    assert stoker.convert(folder, tmp_path / "out", **options).written == len(images)
