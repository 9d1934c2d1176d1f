"""``stoker.Writer``: the samples that it stores."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import rle
from helpers.datasets import read_files
from helpers.images import noise, png
from helpers.loaders import image_arguments
from helpers.options import convert, image_writer
from helpers.processes import full_disk
from PIL import Image

import stoker
from stoker.augment import Resize
from stoker.errors import (
    ConfigError,
    DatasetError,
    DecodeError,
    LockedError,
    SourceError,
    StorageError,
    WriteError,
)

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def load(dataset: Any, **options: Any) -> list[Any]:
    with stoker.ImageLoader(dataset, **image_arguments(batch_size=16, **options)) as loader:
        return list(loader)


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_samples_are_read_back_as_they_were_written(
    tmp_path: Path, make_jpeg: Callable[..., bytes], container: str
) -> None:
    with image_writer(
        tmp_path / "out", classes=["cat", "dog"], container=container, shard_records=3
    ) as writer:
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
    convert(photos, tmp_path / "converted", shard_records=10)
    with image_writer(tmp_path / "written", classes=["cat", "dog", "eel"], shard_records=10) as writer:
        for file in sorted(photos.rglob("*.jpg")):
            writer.write(file, label=file.parent.name, key=file.relative_to(photos).as_posix())
    converted, written = read_files(tmp_path / "converted"), read_files(tmp_path / "written")
    assert {name for name in converted if converted[name] != written[name]} == {"dataset.json", "sha256.json"}
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


@pytest.mark.parametrize(
    ("written", "classes", "labels"),
    [(["eel", "cat", "eel"], ("eel", "cat"), [0, 1, 0]), ([7, np.int32(1)], (), [7, 1])],
)
def test_names_of_classes_are_numbered_as_they_occur_and_numbers_stay_as_they_are(
    tmp_path: Path, written: list[Any], classes: tuple[str, ...], labels: list[int]
) -> None:
    with stoker.Writer(tmp_path / "out") as writer:
        for label in written:
            writer.write(noise(0), label=label)
    dataset = stoker.open(tmp_path / "out")
    assert (dataset.classes, dataset.labels.tolist()) == (classes, labels)
    assert dataset.num_classes == max(labels) + 1
    with stoker.Writer(tmp_path / "below") as writer:
        writer.write(noise(0), label=0)
        with pytest.raises(ConfigError, match="label is -1"):
            writer.write(noise(0), label=-1)
    with stoker.Writer(tmp_path / "vectors") as writer:
        writer.write(noise(0), label=[2, 0])
        with pytest.raises(ConfigError, match=r"which repeats 0 or 1(?s:.)*np\.flatnonzero"):
            writer.write(noise(0), label=np.array([0, 1, 1]))


def test_several_labels_of_a_sample_are_multi_hot_in_batches(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out", classes=["a", "b", "c"]) as writer:
        for labels in (["c", 0], [], ["b"]):
            writer.write(noise(0), label=labels)
    (batch,) = load(tmp_path / "out", transforms=[Resize((6, 8))], columns=("label",))
    assert batch.label.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    write(tmp_path / "unlabelled")
    assert "label" not in stoker.open(tmp_path / "unlabelled").columns


def test_objects_and_masks_are_resized_with_their_image(tmp_path: Path) -> None:
    mask = np.zeros((20, 40), bool)
    mask[4:8, 10:20] = True
    with stoker.Writer(
        tmp_path / "out", classes=["cat", "dog"], box_format="xywh", resize="shorter=10"
    ) as writer:
        writer.write(
            noise(0, 20, 40),
            boxes=[[10, 4, 10, 4], [-2, 0, 6, 8]],
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


def test_objects_may_have_the_forms_of_coco(tmp_path: Path) -> None:
    mask = np.zeros((6, 8), bool)
    mask[1:3, 2:6] = True
    counts = rle(mask)
    masks = [mask, counts, {**counts, "counts": b"=2400000;"}]
    with stoker.Writer(tmp_path / "out", box_format="CXCYWH") as writer:
        points = [[2, 1, 2, 5, 2, 1]] * 3
        writer.write(noise(0), boxes=[[4, 2, 4, 2]] * 3, box_labels=[0] * 3, keypoints=points, masks=masks)
    objects = stoker.open(tmp_path / "out").annotations([0])
    assert objects.boxes.tolist() == [[2, 1, 6, 3]] * 3
    assert objects.keypoints is not None
    assert objects.keypoints.tolist() == [[[2, 1, 2], [5, 2, 1]]] * 3
    assert objects.runs is not None
    assert [runs.tolist() for runs in objects.runs] == [counts["counts"]] * 3


ARRAY = np.zeros((2, 3), np.float32)
OBJECT: dict[str, Any] = {"boxes": [[0, 0, 1, 1]], "box_labels": [0]}
MASKED, POSED = {**OBJECT, "masks": [np.eye(6, 8)]}, {**OBJECT, "keypoints": np.ones((1, 2, 3))}


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"label": "cat"}, {"label": "eel"}, "label is 'eel', which is not among the classes"),
        ({"label": 0}, {"label": 2}, "label is 2, and there are 2 classes"),
        ({"label": 0}, {}, "the sample lacks 'label'"),
        ({"label": 0}, {"label": [0]}, r"label is \[0\], and the first sample has one label"),
        (
            {"score": 1.5},
            {"score": "x"},
            "column 'score' holds a text, and in the first sample a number of float64",
        ),
        ({"score": 1}, {"score": 0.5}, "column 'score' holds 0.5, a number of float64"),
        (
            {"score": 0.5},
            {"score": (1 << 53) + 1},
            "column 'score' holds 9007199254740993, a number of int64",
        ),
        ({"score": np.uint8(1)}, {"score": 300}, "column 'score' holds 300"),
        ({"score": 1.5}, {"score": None}, "column 'score' holds None"),
        ({"score": 1.5}, {"other": 1.5}, "the sample lacks 'score'"),
        ({}, {"score": 1.5}, "the sample has 'score'"),
        ({"depth": ARRAY}, {"depth": ARRAY[0]}, "an array of float32 with 1 side, and in the first sample"),
        ({"depth": ARRAY}, {"depth": ARRAY.astype(float)}, "an array of float64 with 2 sides"),
        ({"depth": ARRAY}, {"depth": [[1], [2, 3]]}, "column 'depth' holds no value that can be stored"),
        ({"depth": ARRAY}, {"depth": ["a"]}, "column 'depth' holds a value of the type list of <U1"),
        (OBJECT, {**OBJECT, "box_labels": []}, "box_labels has 0 labels for 1 boxes"),
        (OBJECT, {**OBJECT, "boxes": [[3, 0, 1, 1]]}, "box 0 has no area"),
        (OBJECT, {**OBJECT, "boxes": [0, 0]}, r"boxes has the shape \(2,\), and boxes have"),
        (OBJECT, {**OBJECT, "area": [1, 2]}, r"area has the shape \(2,\) for 1 boxes"),
        (OBJECT, {**OBJECT, "area": [float("nan")]}, "area must be numbers from 0"),
        (OBJECT, {**OBJECT, "crowd": ["x", 1]}, "crowd has the shape"),
        ({}, {"masks": []}, "the sample has 'masks'"),
        (MASKED, {**MASKED, "masks": []}, "masks has 0 masks for 1 boxes"),
        (MASKED, {**MASKED, "masks": [np.zeros(3)]}, r"mask 0 cannot be read: it has the shape \(3,\)"),
        (MASKED, {**MASKED, "masks": [[[0, 0, 1, 1]]]}, "mask 0 cannot be read: a polygon has three"),
        (POSED, {**POSED, "keypoints": [[1, 2]]}, r"keypoints has the shape \(1, 2\)"),
        ({"label": 0}, {"label": 0.5}, "label is 0.5, neither the name nor the number"),
        ({"label": 0}, {"label": np.float32(0.5)}, "label is 0.5, neither the name nor the number"),
        ({"label": [0]}, {"label": b"a"}, "label is b'a', neither the name nor the number|several labels"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused_by_key_and_column_and_the_writer_goes_on(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], message: str
) -> None:
    with stoker.Writer(tmp_path / "out", classes=["cat", "dog"]) as writer:
        writer.write(noise(0), **first)
        with pytest.raises(ConfigError, match=message) as caught:
            writer.write(noise(1), key="the second", **second)
        assert caught.value.key == "the second"
        writer.write(noise(2), **first)
    assert len(stoker.open(tmp_path / "out")) == 2


@pytest.mark.parametrize("name", ["_key", "offset", "row", "mask_x", "object_x", "class", "depth_shape"])
def test_a_column_with_a_name_of_the_index_is_refused(tmp_path: Path, name: str) -> None:
    writer = stoker.Writer(tmp_path / "out")
    with pytest.raises(ConfigError, match=f"column '{name}' is (a name that the index|no name that a co)"):
        writer.write(noise(0), **{"depth": ARRAY, name: 1})
    with pytest.raises(SourceError, match="no sample was written"):
        writer.close()
    assert list((tmp_path / "out").iterdir()) == []


def test_the_error_for_a_broken_image_names_its_key_and_all_others_are_kept(
    tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    writer = stoker.Writer(tmp_path / "out", num_threads=1, strict=True)
    writer.write(make_jpeg(0))
    writer.write(make_jpeg(1)[:-30], key="broken")

    def write(i: int) -> str | None:
        try:
            writer.write(make_jpeg(i))
        except DecodeError as error:
            return error.key
        return None

    assert {write(i) for i in range(2, 500)} == {None, "broken"}
    assert writer.close().written == 499
    assert "broken" not in stoker.open(tmp_path / "out").keys(range(499))


def test_a_writer_that_is_not_strict_counts_broken_images(
    tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    with stoker.Writer(tmp_path / "out", strict=False) as writer:
        writer.write(make_jpeg(0))
        writer.write(b"no image", key="broken")
        summary = writer.close()
    assert (summary.written, summary.skipped) == (1, {"broken image": 1})
    assert stoker.open(tmp_path / "out").manifest.skipped == {"broken image": 1}


@pytest.mark.parametrize("door", ["writer", "convert"])
def test_a_class_whose_images_are_all_left_out_is_named(
    tmp_path: Path, make_jpeg: Callable[..., bytes], caplog: pytest.LogCaptureFixture, door: str
) -> None:
    samples = [(make_jpeg(0), "cat"), (b"no image", "dog"), (b"no image", "cat")]
    if door == "convert":
        stoker.convert(samples, tmp_path / "out")
    else:
        with stoker.Writer(tmp_path / "out", classes=["eel", "dog", "cat"]) as writer:
            for image, label in samples:
                writer.write(image, label=label)
    assert "every image of these classes is left out, see skipped.jsonl: dog" in caplog.text


def write(target: Path | str, images: int = 1, **options: Any) -> None:
    with image_writer(target, **options) as writer:
        for i in range(images):
            writer.write(noise(i))


@pytest.fixture(params=["folder", "url"])
def target(request: pytest.FixtureRequest, tmp_path: Path, memory: Any) -> Path | str:
    """A place for a dataset: in a folder, or at a URL."""
    memory.mkdir("/bucket")
    return tmp_path / "out" if request.param == "folder" else "memory://bucket/out"


def read(target: Path | str, tmp_path: Path) -> stoker.Dataset:
    return stoker.open(target, cache=tmp_path / "cache" if isinstance(target, str) else None)


def test_there_is_no_dataset_before_the_end_or_after_an_error(
    target: Path | str, tmp_path: Path, memory: Any
) -> None:
    writer = image_writer(target, shard_records=2)
    for i in range(100):
        writer.write(noise(i))
    with pytest.raises((DatasetError, StorageError)):
        read(target, tmp_path)
    with pytest.raises(ZeroDivisionError), writer:
        1 / 0  # noqa: B018 - any error
    assert (list(target.iterdir()) if isinstance(target, Path) else memory.find("/bucket/out")) == []
    with pytest.raises(ConfigError, match="the writer is closed"):
        writer.write(noise(0))


def test_one_writer_or_conversion_at_a_time_writes_into_a_folder(photos: Path, tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "a") as first, stoker.Writer(tmp_path / "b") as second:
        first.write(noise(0))
        second.write(noise(1))
        with pytest.raises(LockedError):
            stoker.Writer(tmp_path / "a")
        with pytest.raises(LockedError):
            stoker.convert(photos, tmp_path / "a")
    assert len(stoker.open(tmp_path / "a")) == len(stoker.open(tmp_path / "b")) == 1


def test_a_dataset_is_replaced_only_with_overwrite(target: Path | str, tmp_path: Path) -> None:
    write(target)
    with pytest.raises(DatasetError, match="there is a dataset already"):
        stoker.Writer(target)
    write(target, 3, overwrite=True)
    assert len(read(target, tmp_path)) == 3


def test_a_dataset_stays_until_the_writer_that_replaces_it_is_closed(tmp_path: Path) -> None:
    target = tmp_path / "out"
    write(target)
    before = read_files(target)
    (target / ".stoker-convert").mkdir()  # as a killed writer leaves it
    (target / ".stoker-convert" / "plan.json").write_text('{"fingerprint": "writer-1"}')
    writer = stoker.Writer(target, overwrite=True)
    writer.write(noise(1))
    assert stoker.verify(target).ok
    writer.abandon()
    assert read_files(target) == before


def test_a_writer_without_references_releases_its_folder(tmp_path: Path) -> None:
    stoker.Writer(tmp_path / "out").write(noise(0))
    write(tmp_path / "out")
    assert len(stoker.open(tmp_path / "out")) == 1


def test_threads_can_share_a_writer(tmp_path: Path) -> None:
    with image_writer(tmp_path / "out", shard_records=7) as writer:
        threads = [
            threading.Thread(target=lambda i=i: [writer.write(noise(0), thread=i) for _ in range(20)])
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    dataset = stoker.open(tmp_path / "out")
    assert np.bincount(dataset.column("thread")).tolist() == [20] * 4
    assert dataset.keys(range(80)) == [f"{i:08d}" for i in range(80)]


def test_a_full_disk_ends_the_writer_and_leaves_no_file(tmp_path: Path) -> None:
    writer = image_writer(tmp_path / "out", shard_records=2)
    for i in range(3):
        writer.write(noise(i))
    with full_disk(), pytest.raises(WriteError, match="the disk is full"):
        writer.close()
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_dataset_at_a_url_has_the_bytes_of_one_in_a_folder(
    tmp_path: Path, memory: Any, container: Any
) -> None:
    memory.mkdir("/bucket")
    for target in (tmp_path / "out", "memory://bucket/out"):
        with image_writer(target, container=container, shard_records=2) as writer:
            for i in range(5):
                writer.write(noise(i), label=("cat", "dog")[i % 2], depth=np.full((2, i), i))
    memory.get("/bucket/out", str(tmp_path / "copy"), recursive=True)
    assert read_files(tmp_path / "copy") == read_files(tmp_path / "out")


def test_a_writer_replaces_the_remains_of_a_killed_one_at_a_url(tmp_path: Path, memory: Any) -> None:
    memory.mkdir("/bucket")
    memory.pipe("/bucket/out/.stoker-convert/plan.json", b'{"fingerprint": "writer-of-a-killed-process"}')
    write("memory://bucket/out")
    assert len(read("memory://bucket/out", tmp_path)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"box_format": "LTRB"}, "box_format"),
        ({"classes": "cat"}, "classes must be a sequence"),
        ({"encoding": "gif"}, "encoding"),
        ({"shard_records": 3, "shard_size": "1MB"}, "shards are made by one of"),
        ({"target": "s3://bucket/x", "append": True}, "the target is a URL"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        image_writer(**{"target": tmp_path / "out", **options})


def test_labels_of_samples_with_several_or_none_are_no_numbers(tmp_path: Path) -> None:
    for name, label in (("several", ["a", "b"]), ("none", None)):
        with stoker.Writer(tmp_path / name) as writer:
            writer.write(noise(0), **({"label": label} if label else {}))
        dataset = stoker.open(tmp_path / name)
        for read in (lambda one: one.labels, lambda one: one.targets):
            with pytest.raises(DatasetError, match=f"one number a sample, and the samples have {name}"):
                read(dataset)
        mixture = stoker.mix([(dataset, 1), (dataset, 1)])
        lacking = [(dataset, "labels"), (dataset, "targets"), (mixture, "labels")]
        assert not any(hasattr(one, attribute) for one, attribute in lacking)
        with pytest.raises(DatasetError, match=f"the samples have {name}"):
            stoker.ImageLoader(dataset, batch_size=1, transforms=[Resize(8)], sampler=stoker.ClassBalanced())


def test_ranks_that_begin_with_one_conversion_wait_for_the_first(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    together = threading.Barrier(3)

    def convert(_: int) -> bool:
        listed = iter([together.wait])
        progress = lambda *_: next(listed, lambda: 0)()  # noqa: E731
        return stoker.convert(photos, tmp_path / "out", progress=progress).already

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(convert, range(3))) == [False, True, True]
    assert stoker.verify(tmp_path / "out").ok


@pytest.mark.usefixtures("every_event")
@pytest.mark.parametrize(
    ("values", "says"), [([0, 255], True), ([255], True), ([0, 1, 255], False), ([0, 1], False)]
)
def test_masks_whose_foreground_is_ignored_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, values: list[int], says: bool
) -> None:
    with image_writer(tmp_path / "out") as writer:
        for value in values:
            writer.write(noise(0), segmentation=np.full((6, 8), value, np.uint8))
    with (
        pytest.raises(SourceError, match="left out: 1 x mask of another size than its image"),
        image_writer(tmp_path / "none") as writer,
    ):
        writer.write(noise(0), segmentation=np.zeros((8, 6), np.uint8))
    words = f"no values but {' and '.join(map(str, values))}, and 255 is ignored"
    assert (words in caplog.text) == says
    assert bool(caplog.records) == says
