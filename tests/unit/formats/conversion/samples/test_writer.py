"""``stoker.Writer``: the samples that it stores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.file_trees import read_files
from helpers.data.pictures import noise, png
from PIL import Image

import stoker
from stoker.augment import Resize

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def load(dataset: Any, **options: Any) -> list[Any]:
    with stoker.ImageLoader(dataset, batch_size=16, **options) as loader:
        return list(loader)


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_samples_are_read_back_as_they_were_written(
    tmp_path: Path, make_jpeg: Callable[..., bytes], container: str
) -> None:
    with stoker.Writer(tmp_path / "out", classes=["cat", "dog"], format=container, shard_records=3) as writer:
        for i in range(8):
            writer.write(
                make_jpeg(i),
                label=("dog", 0)[i % 2],
                key=f"k{i}",
                score=i / 3,
                number=np.int16(i),
                text=f"a {i} ü",
            )
        assert len(writer) == 8
    dataset = stoker.open(tmp_path / "out")
    assert stoker.verify(tmp_path / "out", decode=True).ok
    assert dataset.classes == ("cat", "dog")
    assert [shard.records for shard in dataset.manifest.shards] == [3, 3, 2]
    rows = np.arange(8)
    assert dataset.labels.tolist() == [1, 0] * 4
    assert dataset.keys(rows) == [f"k{i}" for i in rows]
    assert dataset.column("score").tolist() == [i / 3 for i in rows]
    assert (dataset.types["score"], dataset.types["number"]) == ("double", "int16")
    assert dataset.column("number").tolist() == rows.tolist()
    assert dataset.strings("text", rows) == [f"a {i} ü" for i in rows]
    assert [dataset.read(i) for i in rows] == [make_jpeg(i) for i in rows], "bytes stay as they are"


def test_a_writer_makes_the_bytes_of_a_conversion_but_for_the_options_in_the_manifest(
    photos: Path, tmp_path: Path
) -> None:
    stoker.convert(photos, tmp_path / "converted", shard_records=10)
    with stoker.Writer(tmp_path / "written", classes=["cat", "dog", "eel"], shard_records=10) as writer:
        for file in sorted(photos.rglob("*.jpg")):
            writer.write(file, label=file.parent.name, key=file.relative_to(photos).as_posix())
    converted, written = read_files(tmp_path / "converted"), read_files(tmp_path / "written")
    assert {name for name in converted if converted[name] != written[name]} == {"dataset.json"}
    differ = [
        name
        for name, value in json.loads(converted["dataset.json"]).items()
        if value != json.loads(written["dataset.json"])[name]
    ]
    assert differ == ["options"]


@pytest.mark.parametrize("kind", ["bytes", "path", "pillow", "array", "grey", "sixteen", "tensor"])
def test_an_image_in_any_form_keeps_its_pixels(tmp_path: Path, kind: str) -> None:
    pixels = noise(1)
    data = png(pixels)
    (tmp_path / "a.png").write_bytes(data)
    expected = pixels if kind != "grey" else np.repeat(pixels[..., :1], 3, axis=2)
    forms: dict[str, Any] = {
        "bytes": data,
        "path": tmp_path / "a.png",
        "pillow": Image.fromarray(pixels),
        "array": pixels,
        "grey": pixels[..., 0],
        "sixteen": pixels.astype(np.uint16) << 8,
    }
    if kind == "tensor":
        forms[kind] = pytest.importorskip("torch").from_numpy(pixels).permute(2, 0, 1)
    with stoker.Writer(tmp_path / "out") as writer:
        writer.write(forms[kind])
    (batch,) = load(
        tmp_path / "out", transforms=[Resize((6, 8))], columns=("image",), layout="NHWC", dtype="uint8"
    )
    np.testing.assert_array_equal(batch.image[0], expected)


def test_names_of_classes_are_numbered_as_they_occur(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out") as writer:
        for name in ("eel", "cat", "eel"):
            writer.write(noise(0), label=name)
    dataset = stoker.open(tmp_path / "out")
    assert (dataset.classes, dataset.labels.tolist()) == (("eel", "cat"), [0, 1, 0])


def test_labels_that_are_numbers_stay_as_they_are(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out") as writer:
        for number in (7, np.int32(-1)):
            writer.write(noise(0), label=number)
    assert stoker.open(tmp_path / "out").labels.tolist() == [7, -1]


def test_several_labels_of_a_sample_are_multi_hot_in_batches(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["a", "b", "c"]) as writer:
        for labels in (["c", 0], [], ["b"]):
            writer.write(noise(0), label=labels)
    (batch,) = load(tmp_path / "out", transforms=[Resize((6, 8))], columns=("label",))
    assert batch.label.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_samples_without_labels_have_no_column_of_labels(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out") as writer:
        writer.write(noise(0))
    assert "label" not in stoker.open(tmp_path / "out").columns


def test_objects_and_masks_are_resized_with_their_image(tmp_path: Path) -> None:
    mask = np.zeros((20, 40), bool)
    mask[4:8, 10:20] = True
    with stoker.Writer(
        tmp_path / "out", classes=["cat", "dog"], box_format="xywh", resize="shorter=10"
    ) as writer:
        writer.write(
            noise(0, 20, 40),
            boxes=[[10, 4, 10, 4], [0, 0, 4, 8]],
            box_labels=["dog", 0],
            keypoints=[[[12, 6, 2]], [[0, 0, 0]]],
            masks=[mask, [[0, 0, 4, 0, 4, 8]]],
            segmentation=np.full((20, 40), 3, np.uint8),
        )
        writer.write(
            noise(1, 20, 40),
            boxes=[],
            box_labels=[],
            keypoints=[],
            masks=[],
            segmentation=np.zeros((20, 40), int),
        )
    dataset = stoker.open(tmp_path / "out")
    objects = dataset.annotations([0, 1])
    assert objects.boxes.tolist() == [[5, 2, 10, 4], [0, 0, 2, 4]]
    assert (objects.labels.tolist(), objects.area.tolist()) == ([1, 0], [10, 8])
    assert objects.keypoints is not None
    assert objects.keypoints[0].tolist() == [[6, 3, 2]]
    names = ("image", "boxes", "masks", "segmentation")
    (batch,) = load(dataset, transforms=[Resize((10, 20))], columns=names)
    assert batch.masks[0][0].sum() == 2 * 5
    assert np.unique(batch.segmentation[0]).tolist() == [3]
    assert stoker.verify(tmp_path / "out", decode=True).ok
