"""Tests of MDS shards, which an independent writer makes."""

import gzip
import hashlib
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import verified
from helpers.images import first_images
from helpers.shards import shard, write_mds
from PIL import Image

import stoker
from stoker.augment import CenterCrop
from stoker.errors import CorruptRecordError, SourceError
from stoker.formats.codecs.codec import Codec
from stoker.formats.containers.mds import MDS
from stoker.formats.in_place.shards import index

Jpeg = Callable[..., bytes]
COLUMNS = {"image": "jpeg", "label": "int"}


def samples(make_jpeg: Jpeg, count: int) -> list[dict[str, Any]]:
    return [{"image": make_jpeg(i, 12 + i), "label": i % 2} for i in range(count)]


def test_the_writer_of_these_tests_writes_the_bytes_of_mdswriter() -> None:
    """MDSWriter of mosaicml-streaming 0.13.0 wrote a file with this digest from these samples."""
    columns = {
        "image": "bytes",
        "label": "int",
        "name": "str",
        "score": "float32",
        "s": "int16",
        "u": "uint8",
    }
    columns |= {"st": "str_int", "meta": "json"}
    written = [
        {"image": b"x" * i, "label": i - 1, "name": f"näme{i}", "score": i / 2, "s": -3, "u": 200 + i}
        | {"st": 10**15 + i, "meta": {"a": [i]}}
        for i in range(3)
    ]
    digest = hashlib.sha256(shard(columns, written, ["sha1"])).hexdigest()
    assert digest == "6d816192303ed51093a1c8adb94461dc2c7bc2cc751a9e8678b49eb8a395484f"


def test_a_folder_of_shards_is_indexed_with_its_columns(tmp_path: Path, make_jpeg: Jpeg) -> None:
    columns = {
        **COLUMNS,
        "caption": "str",
        "score": "float32",
        "height": "int16",
        "id": "str_int",
        "x": "pkl",
    }
    every = [
        {**one, "caption": f"näme {i}", "score": i / 2, "height": 7, "id": 10**12 + i, "x": b"."}
        for i, one in enumerate(samples(make_jpeg, 5))
    ]
    folder = write_mds(tmp_path / "mds", columns, [every[:3], every[3:]], ["sha1", "sha256"])
    manifest = index([folder], tmp_path / "into", classes=["cat", "dog"])
    dataset = verified(tmp_path / "into")
    assert manifest.container == "mds"
    assert [dataset.read(i) for i in range(5)] == [one["image"] for one in every]
    assert dataset.labels.tolist() == [0, 1, 0, 1, 0]
    assert dataset.keys([0, 4]) == ["shard.00000.mds:0", "shard.00001.mds:1"]
    assert dataset.strings("caption", [4]) == ["näme 4"]
    assert dataset.column("score").tolist() == [0, 0.5, 1, 1.5, 2]
    assert dataset.column("id").tolist() == [10**12 + i for i in range(5)]
    assert (dataset.column("height_").tolist(), "x" in dataset.columns) == ([7] * 5, False)


def test_names_choose_the_columns_of_key_label_and_values(tmp_path: Path, make_jpeg: Jpeg) -> None:
    columns = {**COLUMNS, "caption": "str", "score": "float32"}
    every = [{**one, "caption": "näme 0", "score": 0.5} for one in samples(make_jpeg, 1)]
    names = {"key": "caption", "label": "", "columns": {"points": "score"}}
    index([write_mds(tmp_path / "mds", columns, [every])], tmp_path / "into", names=names)
    dataset = verified(tmp_path / "into")
    assert (dataset.keys([0]), dataset.tasks) == (["näme 0"], frozenset())
    assert dataset.column("points").tolist() == [0.5]
    assert {"score", "caption", "label"}.isdisjoint(dataset.columns)


def test_images_of_pillow_are_read_as_pixels_and_texts_as_class_names(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    image = Image.fromarray(pixels)
    pil = [
        (np.array([5, 4, len(mode)], "<u4").tobytes() + mode.encode(), image.convert(mode))
        for mode in ("RGB", "L")
    ]
    every = [{"a": head + one.tobytes(), "label": name} for (head, one), name in zip(pil, "yx", strict=True)]
    index([write_mds(tmp_path / "pil", {"a": "pil", "label": "str"}, [every])], tmp_path / "into")
    dataset = verified(tmp_path / "into")
    assert (dataset.classes, dataset.labels.tolist()) == (("x", "y"), [1, 0])
    assert dataset.samples([0, 1]).codec.tolist() == [Codec.RAW, Codec.PLANES]
    images = first_images(dataset, [CenterCrop((4, 5))], batch_size=2, dtype="uint8", layout="NHWC")
    assert np.array_equal(images[0], pixels)


def test_raw_pixels_take_their_size_from_columns(tmp_path: Path) -> None:
    raw = [{"pixels": bytes(4 * 5 * 3), "h": 4, "w": 5}]
    folder = write_mds(tmp_path / "raw", {"pixels": "bytes", "h": "int", "w": "int"}, [raw])
    index([folder], tmp_path / "sized", names={"raw": True, "height": "h", "width": "w"})
    assert verified(tmp_path / "sized").samples([0]).height.tolist() == [4]


@pytest.mark.parametrize(
    ("columns", "names", "message"),
    [
        ({"a": "jpeg", "b": "png"}, {}, "has 2 columns that may be its image"),
        ({"a": "int", "b": "str"}, {}, "has 0 columns that may be its image"),
        ({"a": "jpeg", "b": "str"}, {"encoded": "c"}, "has no column 'c'"),
        ({"a": "jpeg", "b": "str"}, {"encoded": "b"}, "the encoding str, which cannot be read in place"),
        ({"a": "jpeg", "b": "json"}, {"columns": {"x": "a"}}, "holds no number or text"),
        ({"a": "pil", "b": "str"}, {}, "no pixels of Pillow's mode RGB or L"),
    ],
)
def test_columns_that_hold_no_image_or_value_are_refused(
    tmp_path: Path, make_jpeg: Jpeg, columns: dict[str, str], names: dict[str, Any], message: str
) -> None:
    values = {"jpeg": make_jpeg(0), "png": b"", "int": 1, "str": "x", "json": {}, "pil": bytes(12)}
    sample = {name: values[encoding] for name, encoding in columns.items()}
    with pytest.raises(SourceError, match=message) as caught:
        index([write_mds(tmp_path / "mds", columns, [[sample]])], tmp_path / "into", names=names)
    assert (caught.value.shard, caught.value.record) == ("shard.00000.mds", 0)


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        document = json.loads((folder / "index.json").read_text())
        change(document["shards"][0])
        (folder / "index.json").write_text(json.dumps(document))

    return edit


def overwritten(offset: int, data: bytes) -> Callable[[Path], None]:
    """Overwrite bytes of the shard at an offset, and remove ``index.json``, which would notice it before.

    For a negative offset, the shard states the offset at its absolute value: -8 is the first sample.
    """

    def edit(folder: Path) -> None:
        (folder / "index.json").unlink()
        content = bytearray((folder / "shard.00000.mds").read_bytes())
        start = offset if offset >= 0 else struct.unpack_from("<I", content, -offset)[0]
        content[start : start + len(data)] = data
        (folder / "shard.00000.mds").write_bytes(content)

    return edit


def cut(folder: Path) -> None:
    (folder / "index.json").unlink()
    data = (folder / "shard.00000.mds").read_bytes()
    (folder / "shard.00000.mds").write_bytes(data[:-5])


def flipped(folder: Path) -> None:
    data = bytearray((folder / "shard.00000.mds").read_bytes())
    data[-50] ^= 1
    (folder / "shard.00000.mds").write_bytes(data)


DAMAGED: list[tuple[Callable[[Path], Any], int, str]] = [
    (edited(lambda one: one.update(samples=4)), 0, "says that it has 4 samples, and it has 3"),
    (edited(lambda one: one["raw_data"].update(bytes=4)), 0, r"says that it has 4 bytes, and it has \d+"),
    (edited(lambda one: one["column_encodings"].reverse()), 0, r"image \(int, None\).*they are image \(jpeg"),
    (edited(lambda one: one["raw_data"].update(basename="y")), 0, "index.json beside it does not name it"),
    (flipped, 0, "the sha1 of the file differs from index.json"),
    (lambda folder: (folder / "index.json").write_text("{"), 0, "index.json beside it is not JSON"),
    (cut, 0, r"samples end at byte \d+, and the file has \d+ bytes"),
    (overwritten(0, b"\xff"), 0, "claims 255 samples, the first at byte"),
    (overwritten(8, bytes(4)), 0, "offsets descend: sample 0 ends before it starts"),
    (overwritten(20, b"x"), 0, "description of the columns is not JSON"),
    (overwritten(-8, b"\xff\xff\xff\xff"), 1, r"has \d+ bytes, and its columns take 42949"),
]


@pytest.mark.parametrize(("damage", "record", "message"), DAMAGED)
def test_a_shard_that_is_damaged_or_contradicts_its_index_file_is_refused(
    tmp_path: Path, make_jpeg: Jpeg, damage: Callable[[Path], None], record: int, message: str
) -> None:
    folder = write_mds(tmp_path / "mds", COLUMNS, [samples(make_jpeg, 3)], ["sha1"])
    damage(folder)
    with pytest.raises(CorruptRecordError, match=message) as caught:
        index([folder], tmp_path / "into")
    assert (caught.value.shard, caught.value.record) == ("shard.00000.mds", record)
    assert not (tmp_path / "into").exists()


def test_columns_that_are_not_read_are_counted(tmp_path: Path, make_jpeg: Jpeg) -> None:
    columns = {**COLUMNS, "mask": "png", "boxes": "ndarray:float32"}
    rows = [{**one, "mask": b"png", "boxes": bytes(16)} for one in samples(make_jpeg, 2)]
    manifest = index(
        [write_mds(tmp_path / "mds", columns, [rows])], tmp_path / "into", names={"encoded": "image"}
    )
    assert manifest.skipped == {
        "column 'boxes' of encoding ndarray:float32, which is not read": 2,
        "column 'mask' of encoding png, which is not read": 2,
    }


@pytest.mark.parametrize("name", ["{}", "file://{}", "{}/*.mds", "file://{}/*.mds"])
def test_a_folder_without_a_shard_of_its_index_file_is_refused(
    tmp_path: Path, make_jpeg: Jpeg, name: str
) -> None:
    folder = write_mds(tmp_path / "mds", COLUMNS, [samples(make_jpeg, 1)] * 3)
    (folder / "shard.00001.mds").unlink()
    message = r"1 of the 3 shards of index\.json is missing: shard\.00001\.mds"
    with pytest.raises(SourceError, match=message):
        index([name.format(folder)], tmp_path / "into")
    with pytest.raises(SourceError, match=message):
        stoker.convert(name.format(folder), tmp_path / "out")
    rest = f"{folder}/shard.0000{{0,2}}.mds"
    assert index([rest], tmp_path / "into").index.rows == stoker.convert(rest, tmp_path / "out").written == 2


@pytest.mark.parametrize("suffix", ["gz", "br"])
def test_a_compressed_shard_is_refused_with_the_command(tmp_path: Path, make_jpeg: Jpeg, suffix: str) -> None:
    folder = write_mds(tmp_path / "mds", COLUMNS, [samples(make_jpeg, 1)])
    data = (folder / "shard.00000.mds").read_bytes()
    (folder / "shard.00000.mds").unlink()
    (folder / f"shard.00000.mds.{suffix}").write_bytes(gzip.compress(data) if suffix == "gz" else b"brotli")
    name = {"gz": "gzip", "br": "brotli"}[suffix]
    with pytest.raises(CorruptRecordError, match=f"compressed with {name}, which allows no random") as caught:
        index([folder], tmp_path / "into")
    command = f"{name} -d < shard.00000.mds.{suffix} > shard.00000.mds"
    assert caught.value.hint == f"Decompress it first: {command}; or convert it with stoker.convert."


def test_shards_at_a_url_are_compared_with_their_index_file(tmp_path: Path, make_jpeg: Jpeg) -> None:
    folder = write_mds(tmp_path / "mds", COLUMNS, [samples(make_jpeg, 2)])
    index([f"file://{folder}"], tmp_path / "into")
    made = {file.name for file in (tmp_path / "into").iterdir()}
    assert made == {"dataset.json", "index.arrow", "sha256.json"}
    dataset = stoker.open(tmp_path / "into", cache=tmp_path / "cache")
    assert dataset.labels.tolist() == [0, 1]
    edited(lambda one: one.update(samples=3))(folder)
    with pytest.raises(CorruptRecordError, match="says that it has 3 samples") as caught:
        index([f"file://{folder}"], tmp_path / "again")
    assert caught.value.path == f"file://{folder}/shard.00000.mds"


def test_a_shard_is_recognised_by_its_start(tmp_path: Path, make_jpeg: Jpeg) -> None:
    data = shard(COLUMNS, samples(make_jpeg, 2))
    assert MDS.recognizes(lambda name, most: data[:most])
    assert MDS.recognizes(lambda name, most: gzip.compress(data)[:most])
    for other in (b"", data[:7], bytes(100), b"\x02" + data[1:8] + bytes(90), re.sub(rb'\{"', b'["', data)):
        assert not MDS.recognizes(lambda name, most, other=other: other[:most])  # type: ignore[misc]  # a default
