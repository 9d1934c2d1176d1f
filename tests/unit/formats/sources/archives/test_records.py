"""Tests of RecordIO files and of MDS shards as sources of conversions."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.data.datasets import converted, read_all
from helpers.data.shards.mds_shards import write_mds
from helpers.data.shards.recordio_shards import MAGIC, image, write_recordio

import stoker
from stoker.errors import CorruptRecordError, SourceError

Picture = Callable[..., bytes]

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
def pictures(encode_picture: Picture) -> list[bytes]:
    return [encode_picture(i, "JPEG") for i in range(8)]


def mosaic(pictures: list[bytes], folder: Path) -> Path:
    samples = [
        {"image": data, "label": i % 2, "score": i / 2, "height": i, "text": f"text {i}"}
        for i, data in enumerate(pictures)
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
def test_recordio_files_are_converted(pictures: list[bytes], tmp_path: Path, labels: int) -> None:
    (folder := tmp_path / "rec").mkdir()
    for number in range(2):
        some = range(4 * number, 4 * number + 4)
        label = [float(number)] * labels
        values = [image(pictures[i], label if labels > 1 else label[0], i) for i in some]
        write_recordio(folder / f"{number}.rec", values, with_index=True)
    dataset = converted(folder, tmp_path / "shards", classes=["cat", "dog"])
    assert read_all(dataset) == pictures
    assert dataset.classes == ("cat", "dog")
    classes = [i // 4 for i in range(8)]
    expected = [[label] * labels for label in classes] if labels > 1 else classes
    assert [sample.label for sample in dataset] == expected
    assert dataset.keys([0, 7]) == ["0", "7"]


def test_an_image_in_several_pieces_is_joined(pictures: list[bytes], tmp_path: Path) -> None:
    cut = pictures[0][:-2] + b"\0" * (-(len(pictures[0]) - 2) % 4) + MAGIC + b"abcd" + MAGIC + b"\xff\xd9"
    values = [image(data, 0, number) for number, data in enumerate([cut, *pictures], 1)]
    file = write_recordio(tmp_path / "a.rec", values)
    for seed in (None, 0):
        dataset = converted(file, tmp_path / f"{seed}", seed=seed)
        assert sorted(read_all(dataset)) == sorted([cut, *pictures])


@pytest.mark.parametrize("kind", ["plain", *COMPRESS])
def test_shards_of_mosaic_are_converted(pictures: list[bytes], tmp_path: Path, kind: str) -> None:
    folder = mosaic(pictures, tmp_path / "mds")
    if kind != "plain":
        compress(folder, kind)
    dataset = converted(folder, tmp_path / "shards", fields={"text": None, "score": "points"})
    assert read_all(dataset) == pictures
    assert dataset.labels.tolist() == [0, 1] * 4
    assert dataset.column("points").tolist() == [i / 2 for i in range(8)]
    assert dataset.column("height_").tolist() == list(range(8))
    assert "text" not in dataset.columns
    stoker.convert(folder, tmp_path / "split", seed=1, val="25%")
    parts = [read_all(stoker.open(tmp_path / "split" / split)) for split in ("train", "val")]
    assert [len(part) for part in parts] == [6, 2]
    assert sorted(parts[0] + parts[1]) == sorted(pictures)


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_compressed_shard_that_is_damaged_is_named(
    pictures: list[bytes], tmp_path: Path, kind: str
) -> None:
    folder = mosaic(pictures, tmp_path / "mds")
    compress(folder, kind)
    file = folder / f"shard.00001.mds.{kind}"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(CorruptRecordError, match=rf"shard\.00001\.mds\.{kind}"):
        stoker.convert(folder, tmp_path / "shards")
    assert not (tmp_path / "shards" / "dataset.json").exists()


def test_raw_pixels_are_refused(tmp_path: Path) -> None:
    pixels = np.zeros((4, 4, 3), np.uint8).tobytes()
    pil = np.array([4, 4, 3], "<u4").tobytes() + b"RGB" + pixels
    folder = write_mds(tmp_path / "mds", {"image": "pil", "label": "int"}, [[{"image": pil, "label": 0}]])
    with pytest.raises(SourceError, match="raw pixels"):
        stoker.convert(folder, tmp_path / "shards")


def test_shards_at_a_url_are_converted(pictures: list[bytes], tmp_path: Path, memory: Any) -> None:
    folder = mosaic(pictures, tmp_path / "mds")
    compress(folder, "zstd")
    rec = write_recordio(tmp_path / "a.rec", [image(data, 0, i) for i, data in enumerate(pictures)])
    for file in [*folder.iterdir(), rec]:
        memory.pipe(f"/bucket/{file.parent.name if file != rec else 'rec'}/{file.name}", file.read_bytes())
    assert read_all(converted("memory://bucket/rec/a.rec", tmp_path / "a")) == pictures
    assert read_all(converted("memory://bucket/mds", tmp_path / "b")) == pictures
