"""Tests of RecordIO files, which an independent writer makes: mxnet cannot be installed beside NumPy 2."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets import converted, verified
from helpers.images import first_images
from helpers.shards import MAGIC, image, write_recordio

from stoker.augment import CenterCrop
from stoker.errors import CorruptRecordError, SourceError
from stoker.formats.containers.recordio import scan
from stoker.formats.in_place.shards import index

Jpeg = Callable[..., bytes]


@pytest.mark.parametrize("with_index", [False, True])
def test_files_of_im2rec_are_indexed_and_not_changed(
    tmp_path: Path, make_jpeg: Jpeg, with_index: bool
) -> None:
    images = [make_jpeg(i, 12 + i, 16) for i in range(4)]
    path = tmp_path / "train.rec"
    write_recordio(path, [image(images[i], i % 2, 10 * i) for i in range(4)], with_index=with_index)
    before = path.read_bytes()
    manifest = index([tmp_path], tmp_path / "into", classes=["cat", "dog"])
    dataset = verified(tmp_path / "into")
    assert (manifest.container, [shard.name for shard in manifest.shards]) == ("recordio", ["train.rec"])
    assert [dataset.read(i) for i in range(4)] == images
    assert (dataset.labels.tolist(), dataset.keys(range(4))) == ([0, 1, 0, 1], ["0", "10", "20", "30"])
    assert path.read_bytes() == before


def test_an_image_may_have_several_labels(tmp_path: Path, make_jpeg: Jpeg) -> None:
    several = [image(make_jpeg(0), [2.0, 0.0], 0), image(make_jpeg(1), [1.0], 1)]
    file = write_recordio(tmp_path / "a.rec", several)
    with pytest.raises(SourceError, match=r"must be one number, found 2(?s:.)*label_type: first, several"):
        index([file], tmp_path / "a")
    index([file], tmp_path / "a", names={"label_type": "several"})
    dataset = verified(tmp_path / "a")
    assert [dataset.lists("label", [i]).values.tolist() for i in range(2)] == [[2, 0], [1]]
    index([file], tmp_path / "first", names={"label_type": "first"})  # as InsightFace has [person, aligned]
    assert verified(tmp_path / "first").labels.tolist() == [2, 1]
    assert converted(file, tmp_path / "out", label_type="first").labels.tolist() == [2, 1]


def test_a_label_that_is_not_whole_is_refused_unless_labels_are_floats(
    tmp_path: Path, make_jpeg: Jpeg
) -> None:
    path = write_recordio(tmp_path / "b.rec", [image(make_jpeg(0), 0.5, 0)])
    with pytest.raises(SourceError, match=r"must be one integer, found 0\.5") as caught:
        index([path], tmp_path / "b")
    assert (caught.value.shard, caught.value.record, caught.value.key) == ("b.rec", 0, "0")
    index([path], tmp_path / "b", names={"label_type": "float"})
    assert verified(tmp_path / "b").labels.tolist() == [0.5]


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_records_that_hold_the_magic_number_are_joined_beside_the_index(tmp_path: Path, engine: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), np.uint8)
    pixels[1].reshape(-1)[20:24] = pixels[1].reshape(-1)[40:44] = np.frombuffer(MAGIC, np.uint8)
    values = [image(one.tobytes(), i, i + 1) for i, one in enumerate(pixels)]
    path = write_recordio(tmp_path / "x.rec", values)
    assert [record.pieces for record in scan(path)] == [1, 3, 1]
    manifest = index([path], tmp_path / "into", names={"raw": True, "shape": (4, 5, 3)})
    assert [(shard.name, shard.records) for shard in manifest.shards] == [("x.rec", 3), ("joined-records", 1)]
    dataset = verified(tmp_path / "into")
    assert [dataset.read(i) for i in range(3)] == [one.tobytes() for one in pixels]
    assert dataset.keys(range(3)) == ["1", "2", "3"]
    images = first_images(
        dataset, [CenterCrop((4, 5))], batch_size=3, dtype="uint8", layout="NHWC", engine=engine
    )
    assert np.array_equal(images, pixels)
    assert dataset.labels.tolist() == [0, 1, 2]


def test_an_id_of_0_names_only_the_first_record(tmp_path: Path, make_jpeg: Jpeg) -> None:
    path = write_recordio(tmp_path / "x.rec", [image(make_jpeg(i), 0, 0) for i in range(2)])
    index([path], tmp_path / "into")
    assert verified(tmp_path / "into").keys([0, 1]) == ["0", "x.rec:1"]


def test_records_without_an_image_are_counted(tmp_path: Path, make_jpeg: Jpeg) -> None:
    """Files of faces begin with a record of two numbers and no image."""
    path = write_recordio(tmp_path / "x.rec", [image(b"", [9.0, 12.5], 0), image(make_jpeg(0), 3, 1)])
    assert index([path], tmp_path / "into").skipped == {"image whose header cannot be read": 1}
    assert verified(tmp_path / "into").labels.tolist() == [3]


def overwritten(start: int, new: bytes) -> Callable[[bytes, int], bytes]:
    """Replace bytes of a file, ``start`` bytes after the start of its second record."""
    return lambda data, second: data[: second + start] + new + data[second + start + len(new) :]


@pytest.mark.parametrize(
    ("damage", "record", "key", "message"),
    [
        (overwritten(1, b"x"), 1, "7", "the magic number is 0x"),
        (lambda data, second: data[:-4], 2, "8", r"claims \d+ bytes where \d+ are left"),
        (lambda data, second: data[: second + 4], 1, None, "ends within a record, 4 bytes after"),
        (overwritten(4, struct.pack("<I", (1 << 29) - 1)), 1, "7", "claims 536870911 bytes where"),
        (overwritten(7, b"\x40"), 1, "7", "starts with continuation flag 2"),
        (overwritten(7, b"\x20"), 1, "7", "goes on with continuation flag 0"),
    ],
    ids=["magic", "cut short", "cut within a header", "a length that lies", "no start", "no end"],
)
def test_a_broken_file_is_refused_with_shard_record_and_key(
    tmp_path: Path,
    make_jpeg: Jpeg,
    damage: Callable[[bytes, int], bytes],
    record: int,
    key: str | None,
    message: str,
) -> None:
    path = write_recordio(tmp_path / "x.rec", [image(make_jpeg(i, 40, 40), i, 6 + i) for i in range(3)])
    second = next(one.offset for one in scan(path) if one.number == 1) - 8
    path.write_bytes(damage(path.read_bytes(), second))
    with pytest.raises(CorruptRecordError, match=message) as caught:
        index([path], tmp_path / "into")
    assert (caught.value.shard, caught.value.record, caught.value.key) == ("x.rec", record, key)
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [(b"short", "has 5 bytes, and the header"), (struct.pack("<IfQQ", 9, 0, 0, 0), "claims 9 labels")],
)
def test_a_value_that_is_no_image_is_refused(tmp_path: Path, value: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        index([write_recordio(tmp_path / "x.rec", [value])], tmp_path / "into")


def test_a_rec_file_with_another_magic_number_is_refused_as_recordio(tmp_path: Path) -> None:
    (tmp_path / "x.rec").write_bytes(b"\x01" + MAGIC[1:] + bytes(60))
    with pytest.raises(CorruptRecordError, match="the magic number is 0xced72301, not 0xced7230a") as caught:
        index([tmp_path / "x.rec"], tmp_path / "into")
    assert (caught.value.shard, caught.value.record) == ("x.rec", 0)
    assert caught.value.hint == "The file is damaged, or it is not a RecordIO file."
