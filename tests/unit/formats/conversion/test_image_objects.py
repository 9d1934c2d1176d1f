"""Objects and masks of a resized image follow its pixels."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.annotations import bounding_box
from helpers.command_line import run
from helpers.datasets import read_files, rewrite_index
from helpers.images import exif, png
from helpers.options import convert
from helpers.processes import full_disk
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, ImageOps

import stoker
from stoker.augment import CenterCrop
from stoker.errors import SourceError, StaleIndexError, WriteError
from stoker.formats.conversion.image_encoder import encode_image
from stoker.formats.conversion.image_objects import (
    fit_objects,
    resize_geometry,
    resize_mask,
    resize_objects,
    turn_objects,
    turn_pixels,
)
from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.dataset.annotations import Annotations, mask_of_runs, runs_of_mask
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.registry import find_format
from stoker.formats.sources.source import Source
from stoker.pipeline.commands.summary import class_table, summary_rows

MODES: list[tuple[Any, int, int]] = [
    ("shorter", 40, 40),
    ("longer", 64, 64),
    ("squash", 50, 90),
    ("crop", 48, 48),
    ("crop", 90, 40),
    ("fill", 64, 64),
    ("fill", 33, 90),
    ("crop", 200, 300),
    ("fill", 200, 300),
]
SIZES = [(80, 120), (121, 77), (60, 60)]


def make_objects(boxes: Any, **more: Any) -> Annotations:
    """Objects of one image."""
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    m = len(boxes)
    return Annotations(
        owner=np.zeros(m, np.int64),
        boxes=boxes,
        labels=np.zeros(m, np.int64),
        crowd=np.zeros(m, bool),
        area=np.prod(boxes[:, 2:] - boxes[:, :2], axis=1),
        id=np.arange(m),
        **more,
    )


def encode_resized(pixels: np.ndarray[Any, Any], mode: Any, height: int, width: int) -> np.ndarray[Any, Any]:
    options = ConvertOptions(mode=mode, height=height, width=width, encoding="raw", shards=1)
    image = encode_image(png(pixels), options)
    return np.frombuffer(image.payload, np.uint8).reshape(image.height, image.width, 3)


@pytest.mark.parametrize(("mode", "height", "width"), MODES)
@pytest.mark.parametrize("size", SIZES)
def test_boxes_polygons_keypoints_and_runs_follow_the_pixels(
    size: tuple[int, int], mode: Any, height: int, width: int
) -> None:
    h, w = size
    left, top, right, bottom = w // 2 - 20, h // 2 - 15, w // 2 + 10, h // 2 + 21
    pixels = np.zeros((h, w, 3), np.uint8)
    pixels[top:bottom, left:right] = 255
    out = encode_resized(pixels, mode, height, width)
    geometry = resize_geometry(mode, height, width, size)
    assert geometry.size == out.shape[:2]
    rows, columns = (np.flatnonzero((out[..., 0] > 127).any(axis=axis)) for axis in (1, 0))
    seen = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    corners = np.array([[left, top], [right, top], [right, bottom]], np.float32)
    points = np.concatenate((corners, [[2], [0], [1]]), axis=1, dtype=np.float32)[None]
    mask = pixels[..., 0] > 0
    before = make_objects(
        [[left, top, right, bottom]], keypoints=points, polygons=[[corners]], runs=[runs_of_mask(mask)]
    )
    after, dropped = fit_objects(before, size, geometry, relative=False)
    assert not dropped
    np.testing.assert_allclose(after.boxes[0], seen, atol=1)
    assert after.polygons is not None
    assert after.keypoints is not None
    moved = after.polygons[0][0]
    box = [moved[0, 0], moved[0, 1], moved[2, 0], moved[2, 1]]
    np.testing.assert_allclose(after.boxes[0], np.clip(box, 0, geometry.size[::-1] * 2), rtol=1e-6)
    assert after.keypoints[0, 1, 2] == 0
    inside = ((moved >= 0) & (moved <= geometry.size[::-1])).all(axis=1)
    assert (after.keypoints[0, :, 2] > 0).tolist() == [inside[0], False, inside[2]]
    for i in (0, 2) if inside[[0, 2]].all() else ():
        np.testing.assert_array_equal(after.keypoints[0, i, :2], moved[i])
    assert after.runs is not None
    drawn = mask_of_runs(after.runs[0], *geometry.size)
    np.testing.assert_array_equal(drawn, resize_mask(mask, geometry, 0))
    assert (drawn ^ (out[..., 0] > 127)).mean() < 0.02
    np.testing.assert_allclose(after.area[0], np.prod(after.boxes[0, 2:] - after.boxes[0, :2]), rtol=1e-4)


@pytest.mark.parametrize(("mode", "height", "width"), MODES)
@pytest.mark.parametrize("size", SIZES)
def test_a_resized_mask_has_no_new_values(size: tuple[int, int], mode: Any, height: int, width: int) -> None:
    mask = np.random.default_rng(0).choice(np.array([3, 7, 200], np.uint8), size)
    geometry = resize_geometry(mode, height, width, size)
    out = resize_mask(mask, geometry, 255)
    assert out.shape == geometry.size
    assert out.dtype == np.uint8
    top, left, inner_height, inner_width = geometry.dest
    inner = out[top : top + inner_height, left : left + inner_width]
    assert set(np.unique(inner)) <= {3, 7, 200}
    assert (out == 255).sum() == out.size - inner.size
    # Three pixels are compared with exact fractions.
    scale_y = (Fraction(geometry.region[2]) - Fraction(geometry.region[0])) / inner_height
    scale_x = (Fraction(geometry.region[3]) - Fraction(geometry.region[1])) / inner_width
    for y, x in [(0, 0), (inner_height - 1, inner_width - 1), (inner_height // 3, inner_width // 2)]:
        row = Fraction(geometry.region[0]) + (y + Fraction(1, 2)) * scale_y
        column = Fraction(geometry.region[1]) + (x + Fraction(1, 2)) * scale_x
        near = Fraction(1, 1 << 40)  # on an edge, either pixel is the nearest
        assert (
            inner[y, x]
            in mask[int(row - near) : int(row + near) + 1, int(column - near) : int(column + near) + 1]
        )


SIDE = st.integers(1, 90)


@given(st.sampled_from(["shorter", "longer", "squash", "crop", "fill"]), SIDE, SIDE, SIDE, SIDE)
@example("crop", 20, 90, 5, 10)  # where sides of half a pixel are rounded
@example("fill", 30, 80, 21, 20)
def test_the_geometry_is_that_of_the_resized_pixels(
    mode: Any, h: int, w: int, height: int, width: int
) -> None:
    if mode in ("shorter", "longer"):
        width = height
    pixels = np.zeros((h, w, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = 2 * np.arange(w), 2 * np.arange(h)[:, None]
    out = encode_resized(pixels, mode, height, width)
    geometry = resize_geometry(mode, height, width, (h, w))
    assert geometry.size == out.shape[:2]
    top, left, inner_height, inner_width = geometry.dest
    assert 0 <= top <= top + inner_height <= out.shape[0]
    assert 0 <= left <= left + inner_width <= out.shape[1]
    assert resize_mask(np.zeros((h, w), np.uint8), geometry, 1).shape == out.shape[:2]
    # The values of a ramp show which pixel of the source each comes from.
    inner = out[top : top + inner_height, left : left + inner_width]
    for axis, number, size, values in (
        (1, inner_width, w, inner[..., 0]),
        (0, inner_height, h, inner[..., 1]),
    ):
        start, scale = geometry.region[axis], 1 / geometry.scale[1 - axis]
        centers = start + (np.arange(number) + 0.5) * scale
        whole = np.minimum(centers, size - centers) >= max(scale, 1)
        expected = np.broadcast_to(np.expand_dims(2 * centers - 1, 1 - axis), values.shape)
        np.testing.assert_allclose(values.compress(whole, axis), expected.compress(whole, axis), atol=1.5)


def test_objects_are_clipped_to_the_crop_and_those_outside_are_dropped() -> None:
    geometry = resize_geometry("crop", 50, 50, (50, 150))
    assert geometry.region == (0, 50, 50, 100)
    before = make_objects([[0, 0, 40, 40], [30, 10, 70, 20], [60, 10, 70, 20]])
    after, dropped = fit_objects(before, (50, 150), geometry, relative=False)
    assert after.boxes.tolist() == [[0, 10, 20, 20], [10, 10, 20, 20]]
    assert after.area.tolist() == [200, 100]
    assert [drop[:2] + drop[3:] for drop in dropped] == [(0, "object outside the crop", False)]


def test_objects_of_polygons_and_of_run_lengths_are_resized_together() -> None:
    mask = np.zeros((20, 30), bool)
    mask[5:10, 5:10] = True
    corners = np.array([[1, 1], [3, 1], [3, 3]], np.float32)
    runs = [np.zeros(0, np.uint32), runs_of_mask(mask)]
    before = make_objects([[1, 1, 3, 3], [5, 5, 10, 10]], polygons=[[corners], []], runs=runs)
    for mode in ("none", "shorter"):
        geometry = resize_geometry(mode, 90, 90, (20, 30))  # type: ignore[arg-type]  # both are modes
        assert geometry.is_identity
        assert resize_objects(before, geometry, (20, 30)) is before
    after = resize_objects(before, resize_geometry("squash", 40, 60, (20, 30)), (20, 30))
    assert after.runs is not None
    assert len(after.runs[0]) == 0
    assert mask_of_runs(after.runs[1], 40, 60).sum() == 100


def test_coordinates_as_shares_of_the_image_become_pixels() -> None:
    whole, resized = (resize_geometry(mode, 40, 30, (20, 60)) for mode in ("none", "squash"))
    polygon = np.array([[0.5, 0.5], [1, 0.5], [1, 1]], np.float32)
    before = make_objects([[0.25, 0.5, 0.75, 1]], polygons=[[polygon]])
    after, _ = fit_objects(before, (20, 60), whole, relative=True)
    assert (after.boxes.tolist(), after.area.tolist()) == ([[15, 10, 45, 20]], [300])
    assert after.polygons is not None
    assert after.polygons[0][0].tolist() == [[30, 10], [60, 10], [60, 20]]
    after, _ = fit_objects(before, (20, 60), resized, relative=True)
    assert after.boxes.tolist() == [[7.5, 20, 22.5, 40]]


@pytest.mark.parametrize(("stated", "expected"), [(-150, 100), (7, 7)])
def test_an_area_that_the_source_does_not_state_is_that_of_the_clipped_box(
    stated: float, expected: float
) -> None:
    before = replace(make_objects([[-5, 0, 10, 10]]), area=np.array([stated], np.float32))
    whole, half = (resize_geometry(mode, 10, 30, (20, 60)) for mode in ("none", "squash"))
    assert fit_objects(before, (20, 60), whole, relative=False)[0].area.tolist() == [expected]
    assert fit_objects(before, (20, 60), half, relative=False)[0].area.tolist() == [expected / 4]


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


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_annotations_of_the_stored_pixels_are_turned_with_them(orientation: int, relative: bool) -> None:
    mask = np.zeros((20, 30), np.uint8)
    mask[4:10, 7:9] = 1
    image = Image.fromarray(mask)
    image.getexif()[274] = orientation
    shown = np.asarray(ImageOps.exif_transpose(image))
    rows, columns = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
    box = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    unit = np.array([30, 20] if relative else [1, 1], np.float32)
    corners = np.array([[7, 4], [9, 4], [9, 10], [7, 10]], np.float32)
    points = np.array([[[*corners[0] / unit, 2], [0, 0, 0]]], np.float32)
    more = {"polygons": [[corners / unit]], "runs": [runs_of_mask(mask > 0)], "keypoints": points}
    before = make_objects([[*corners[0] / unit, *corners[2] / unit]], **more)
    size = (shown.shape[0], shown.shape[1])
    found = turn_objects(before, orientation, size, (1, 0), relative=relative)
    unit = np.array([shown.shape[1], shown.shape[0]]) if relative else unit
    np.testing.assert_allclose(found.boxes[0].reshape(2, 2) * unit, np.reshape(box, (2, 2)), atol=1e-5)
    assert found.polygons is not None
    assert found.runs is not None
    assert found.keypoints is not None
    outline = found.polygons[0][0] * unit
    np.testing.assert_allclose([*outline.min(axis=0), *outline.max(axis=0)], box, atol=1e-5)
    assert (mask_of_runs(found.runs[0], *size) == shown).all()
    # The first keypoint is the first corner; mirrored, it is the second keypoint.
    at = int(orientation in (2, 4, 5, 7))
    np.testing.assert_allclose(found.keypoints[0, at, :2] * unit, outline[0], atol=1e-5)
    assert found.keypoints[0, :, 2].tolist() == [[2, 0], [0, 2]][at]
    assert (turn_pixels(mask, orientation) == shown).all()


@pytest.mark.parametrize("source", ["coco", "pairs"])
@pytest.mark.parametrize("encoding", ["keep", "png"])
def test_annotations_from_before_the_exif_orientation_need_an_option(
    tmp_path: Path, source: str, encoding: str
) -> None:
    images = tmp_path / "images"
    images.mkdir()
    draw_box(images / "a.jpg", (18, 8, 30, 20), 6)  # stored 30 wide and 40 high
    options: dict[str, Any] = {"images": images}
    stored = np.zeros((W, H), np.uint8)
    stored[W - 30 : W - 18, 8:20] = 1
    if source == "pairs":
        (tmp_path / "masks").mkdir()
        Image.fromarray(stored).save(tmp_path / "masks" / "a.png")
        options = {"masks": tmp_path / "masks"}
    path = write_coco(tmp_path, (8, W - 30, 20, W - 18), (W, H)) if source == "coco" else images
    with pytest.raises(SourceError, match=r"40 x 30 as shown, and 30 x 40 where.*orientation is 6") as caught:
        convert(path, tmp_path / "refused", encoding=encoding, **options)
    assert "annotations_before_exif=True" in str(caught.value.hint)
    options["annotations_before_exif"] = True
    convert(path, tmp_path / "out", encoding=encoding, **options)
    dataset = stoker.open(tmp_path / "out")
    assert dataset.manifest.options["annotations_before_exif"]
    if source == "coco":
        # The stored pixel (x, y) is shown at (H - y, x) of these.
        assert dataset.annotations([0]).boxes.tolist() == [[18, 8, 30, 20]]
    else:
        crop = [CenterCrop((H, W))]
        with stoker.ImageLoader(dataset, batch_size=1, columns=("segmentation",), transforms=crop) as loader:
            assert bounding_box(next(iter(loader)).segmentation[0] == 1) == [18, 8, 30, 20]


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


def test_the_format_of_a_source_is_detected_by_its_files_and_options(tmp_path: Path) -> None:
    for path in ("voc/Annotations/1.xml", "yolo/labels/a/1.txt", "yolo/images/a/1.jpg", "plain/cat/1.jpg"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("")
    (tmp_path / "voc" / "JPEGImages").mkdir()
    for name, text in (("coco", ' \n{"images": []}'), ("list", "[]"), ("marked", '\ufeff{"images": []}')):
        (tmp_path / f"{name}.json").write_text(text)
    for name, expected in (
        ("voc", "voc"),
        ("yolo", "yolo"),
        ("yolo/images/a", "yolo"),
        ("plain", "folder"),
        ("coco.json", "coco"),
        ("marked.json", "coco"),
        ("list.json", "list"),
        ("nowhere.csv", "list"),
    ):
        assert find_format(Source(tmp_path / name)).name == expected
    assert find_format(Source(tmp_path / "plain", SourceOptions(masks=tmp_path))).name == "pairs"
    assert find_format(Source(tmp_path / "list.json"), "coco").name == "coco"
    (tmp_path / "notes.txt").touch()
    with pytest.raises(SourceError, match="no entries"):
        stoker.convert(tmp_path / "notes.txt", tmp_path / "out")


@pytest.fixture
def dataset(tmp_path: Path) -> stoker.Dataset:
    """One image with a box, a polygon and run lengths."""
    draw_box(tmp_path / "a.jpg", (1, 2, 9, 9), 1)
    path = write_coco(tmp_path, (1, 2, 9, 9), (H, W))
    document = json.loads(path.read_text())
    first = document["annotations"][0] | {"segmentation": [[1, 2, 9, 2, 9, 9]]}
    runs = {"size": [H, W], "counts": [10, 5, H * W - 15]}
    document["annotations"] = [first, {**first, "id": 4, "iscrowd": 1, "segmentation": runs}]
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
    shown = dict(summary_rows(dataset))
    assert shown["tasks"] == "boxes, instances"
    assert shown["objects"] == "2, 1 of them crowds"
    assert shown["objects per image"] == "2 to 2, mean 2.0"
    assert shown["object sizes"] == "100% small, 0% medium, 0% large"
    assert shown["side of objects"].startswith("7 px, 7 px, 7 px")
    assert class_table(dataset).columns[2].header == "objects"
    assert list(class_table(dataset).columns[2].cells) == ["2"]
    assert "objects" not in dict(summary_rows(dataset.select([])))


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

    def make(name: str) -> dict[str, bytes]:
        options = {"container": container, "shard_records": 2, "num_threads": 1, "seed": 1}
        convert(tmp_path / "x.json", tmp_path / name, masks=tmp_path / "masks", **options)
        return read_files(tmp_path / name)

    whole = make("whole")
    stopped = tmp_path / "stopped"
    with full_disk(1), pytest.raises(WriteError):
        make("stopped")
    assert not (stopped / MANIFEST_NAME).exists()
    (finished,) = stopped.glob(f".stoker-convert/0*.{container}")
    os.utime(finished, (0, 0))
    assert make("stopped") == whole
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
