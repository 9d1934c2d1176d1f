"""Annotations in whole conversions: orientation, detected formats, verification, the command line."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.command_line import run
from helpers.data.datasets import rewrite_index
from helpers.data.file_trees import read_files
from helpers.data.pictures import exif
from helpers.processes.disk_calls import full_disk
from PIL import Image

import stoker
from stoker.errors import SourceError, StaleIndexError, WriteError
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.sources.registry import find_format
from stoker.formats.sources.source import Source
from stoker.pipeline.commands.description.facts import class_table, facts

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

H, W = 30, 40


def draw_box(
    path: Path, box: tuple[int, int, int, int], orientation: int, size: tuple[int, int] = (H, W)
) -> None:
    """Write an image that shows a white ``box`` after its EXIF orientation is applied."""
    pixels = np.zeros((*size, 3), np.uint8)
    left, top, right, bottom = box
    pixels[top:bottom, left:right] = 255
    # The operation that undoes each orientation (Exif 2.32, tag 274).
    undo: dict[int, Any] = {
        1: lambda p: p,
        3: lambda p: p[::-1, ::-1],
        6: lambda p: np.rot90(p, 1),
        8: lambda p: np.rot90(p, -1),
    }
    Image.fromarray(np.ascontiguousarray(undo[orientation](pixels))).save(
        path, quality=95, exif=exif(orientation)
    )


def write_coco(folder: Path, box: tuple[int, int, int, int], declared: tuple[int, int]) -> Path:
    """Write a COCO file of one box in an image of the height and width ``declared``."""
    left, top, right, bottom = box
    image = {"id": 1, "file_name": "a.jpg", "height": declared[0], "width": declared[1]}
    annotation = {"id": 3, "image_id": 1, "category_id": 1, "bbox": [left, top, right - left, bottom - top]}
    document = {"images": [image], "annotations": [annotation], "categories": [{"id": 1, "name": "box"}]}
    path = folder / "x.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
@pytest.mark.parametrize("resize", [None, "shorter=60", "squash=30x40", "shorter=15", "crop=20x20"])
def test_boxes_follow_the_orientation_and_the_resize_of_their_image(
    tmp_path: Path, orientation: int, resize: str | None
) -> None:
    box = (18, 8, 30, 20)
    draw_box(tmp_path / "a.jpg", box, orientation)
    stoker.convert(write_coco(tmp_path, box, (H, W)), tmp_path / "out", resize=resize, encoding="png")
    dataset = stoker.open(tmp_path / "out")
    with Image.open(io.BytesIO(dataset.read(0))) as image:
        shown = np.asarray(image.convert("L")) > 127
    rows, columns = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
    seen = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    np.testing.assert_allclose(dataset.annotations([0]).boxes[0], seen, atol=1)


@pytest.mark.parametrize("declared", [(W, H), (H + 1, W)])
def test_an_image_of_another_size_than_its_annotations_say_is_not_converted(
    tmp_path: Path, declared: tuple[int, int]
) -> None:
    draw_box(tmp_path / "a.jpg", (1, 2, 9, 9), 6)
    with pytest.raises(SourceError, match="image of another size than its annotations say"):
        stoker.convert(write_coco(tmp_path, (1, 2, 9, 9), declared), tmp_path / "out")


def test_the_format_of_a_source_is_detected_by_its_files_and_options(tmp_path: Path) -> None:
    for path in ("voc/Annotations/1.xml", "yolo/labels/a/1.txt", "yolo/images/a/1.jpg", "plain/cat/1.jpg"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("")
    (tmp_path / "voc" / "JPEGImages").mkdir()
    for name, text in (("coco", ' \n{"images": []}'), ("list", "[]"), ("marked", '\ufeff{"images": []}')):
        (tmp_path / f"{name}.json").write_text(text)
    detected = {
        name: find_format(Source(tmp_path / name)).name
        for name in ("voc", "yolo", "plain", "coco.json", "marked.json", "list.json", "nowhere.csv")
    }
    assert detected == {
        "voc": "voc",
        "yolo": "yolo",
        "plain": "folder",
        "coco.json": "coco",
        "marked.json": "coco",
        "list.json": "list",
        "nowhere.csv": "list",
    }
    assert find_format(Source(tmp_path / "plain", masks=tmp_path)).name == "pairs"
    assert find_format(Source(tmp_path / "yolo" / "images" / "a")).name == "yolo"
    assert find_format(Source(tmp_path / "list.json"), "coco").name == "coco"
    (tmp_path / "notes.txt").touch()
    with pytest.raises(SourceError, match="COCO"):
        stoker.convert(tmp_path / "notes.txt", tmp_path / "out")


@pytest.fixture
def dataset(tmp_path: Path) -> stoker.Dataset:
    """One image with a box, a polygon and run lengths."""
    draw_box(tmp_path / "a.jpg", (1, 2, 9, 9), 1)
    path = write_coco(tmp_path, (1, 2, 9, 9), (H, W))
    document = json.loads(path.read_text())
    annotation = document["annotations"][0]
    document["annotations"] = [
        {**annotation, "segmentation": [[1, 2, 9, 2, 9, 9]]},
        {
            **annotation,
            "id": 4,
            "iscrowd": 1,
            "segmentation": {"size": [H, W], "counts": [10, 5, H * W - 15]},
        },
    ]
    path.write_text(json.dumps(document))
    stoker.convert(path, tmp_path / "out")
    return stoker.open(tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("object_labels", [0, 1], "a label outside the 1 classes"),
        ("object_labels", [-1, 0], "a label outside the 1 classes"),
        ("object_labels", [0], "contradict each other"),
        ("object_boxes", [0, 0, 40, 30, 1, 2, 9, 9], None),
        ("object_boxes", [-1, 2, 9, 9, 1, 2, 9, 9], "an empty box, or one that leaves"),
        ("object_boxes", [1, 2, 9, 9, 5, 2, 5, 9], "an empty box, or one that leaves"),
        ("object_boxes", [1, 2, 9, 9, 1, 2, 9, 900], "leaves the image of 40 x 30 pixels"),
        ("object_boxes", [1, 2, 9, 9, 9, 2, 1, 9], "an empty box, or one that leaves"),
        ("object_boxes", [1, 2, 9, 9, 1, 2, 9, float("nan")], "an empty box, or one that leaves"),
        ("object_runs", [10, 5, 7], "run lengths that do not fill 40 x 30 pixels"),
        ("object_polygon_owner", [2], "contradict each other"),
        ("object_polygon_sizes", [2], "contradict each other"),
        ("object_run_counts", [0, 2], "contradict each other"),
    ],
)
def test_verification_finds_wrong_objects_in_the_index(
    dataset: stoker.Dataset, name: str, values: list[Any], message: str | None
) -> None:
    folder = dataset.path
    rewrite_index(folder, **{name: pa.array([values], dataset.index.arrow(name).type)})
    problems = stoker.verify(folder).problems
    if message is None:
        assert problems == ()
        return
    (problem,) = problems
    assert message in problem.message
    assert problem.key == "a.jpg"
    if "contradict" in message:
        with pytest.raises(StaleIndexError, match="the index is damaged"):
            stoker.open(folder).annotations([0])


def test_info_describes_annotations(dataset: stoker.Dataset) -> None:
    shown = dict(facts(dataset))
    assert shown["tasks"] == "boxes, instances"
    assert shown["objects"] == "2, 1 of them crowds"
    assert shown["objects per image"] == "2 to 2, mean 2.0"
    assert shown["object sizes"] == "100% small, 0% medium, 0% large"
    assert shown["side of objects"].startswith("7 px, 7 px, 7 px")
    assert class_table(dataset).columns[2].header == "objects"
    assert list(class_table(dataset).columns[2].cells) == ["2"]
    assert "objects" not in dict(facts(dataset.select([])))


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_an_interrupted_conversion_resumes_to_the_same_bytes(tmp_path: Path, container: Any) -> None:
    (tmp_path / "masks").mkdir()
    images, annotations = [], []
    for i in range(6):
        draw_box(tmp_path / f"{i}.jpg", (i, 2, 9 + i, 9), 1)
        Image.fromarray(np.full((H, W), i, np.uint8)).save(tmp_path / "masks" / f"{i}.png")
        images.append({"id": i, "file_name": f"{i}.jpg", "height": H, "width": W})
        annotations += [{"id": k, "image_id": i, "category_id": 1, "bbox": [i, k, 9, 9]} for k in range(i)]
    document = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "x"}]}
    (tmp_path / "x.json").write_text(json.dumps(document))

    def convert(name: str) -> dict[str, bytes]:
        options: dict[str, Any] = {"format": container, "shard_records": 2, "num_threads": 1, "seed": 1}
        stoker.convert(tmp_path / "x.json", tmp_path / name, masks=tmp_path / "masks", **options)
        return read_files(tmp_path / name)

    whole = convert("whole")
    stopped = tmp_path / "stopped"
    with full_disk(1), pytest.raises(WriteError):
        convert("stopped")
    assert not (stopped / MANIFEST_NAME).exists()
    (finished,) = stopped.glob(f".stoker-convert/0*.{container}")
    os.utime(finished, (0, 0))
    assert convert("stopped") == whole
    assert [shard.stat().st_mtime for shard in stopped.glob(f"*.{container}")].count(0) == 1


def test_the_command_converts_boxes_and_masks_with_its_options(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    draw_box(tmp_path / "images" / "a.jpg", (1, 2, 9, 9), 1)
    path = write_coco(tmp_path, (1, 2, 9, 9), (H, W))
    Image.fromarray(np.zeros((H, W), np.uint8)).save(tmp_path / "masks" / "a.png")
    options = ["--images", tmp_path / "images", "--masks", tmp_path / "masks"]
    run("convert", path, tmp_path / "out", *options, "--ignore-index", 9, "--source-format", "coco")
    dataset = stoker.open(tmp_path / "out")
    assert dataset.tasks == {"boxes", "segmentation"}
    assert dataset.manifest.annotations.ignore == 9
    assert dataset.manifest.options["source_format"] == "coco"
    assert "value 9 is ignored" in run("info", tmp_path / "out")
