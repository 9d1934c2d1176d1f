"""Tests of images beside class masks and instance masks as a source."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import converted
from helpers.images import decode, encode
from helpers.options import convert_options
from PIL import Image

import stoker
from stoker.augment import Resize, masks_to_source
from stoker.errors import ConfigError, CorruptRecordError, SourceError
from stoker.formats.sources.masks import instances_of
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.registry import find_format, list_source
from stoker.formats.sources.source import Source

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

H, W = 24, 36


def values(seed: int = 0, most: int = 150, size: tuple[int, int] = (H, W)) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, most + 1, size).astype(np.uint8)


png = partial(encode, form="PNG")


def tiff(value: float) -> bytes:
    """A mask of 32 bits with one value in all pixels."""
    return encode(np.full((H, W), value, np.int32 if isinstance(value, int) else np.float32), "TIFF")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Images and masks as in ADE20K: with the same names, in folders of the same names."""
    for kind in ("images/a", "images/b", "masks/a", "masks/b"):
        (tmp_path / kind).mkdir(parents=True)
    for i in range(4):
        name = f"{'ab'[i % 2]}/{i}"
        Image.fromarray(np.zeros((H, W, 3), np.uint8)).save(tmp_path / "images" / f"{name}.jpg")
        (tmp_path / "masks" / f"{name}.png").write_bytes(png(Image.fromarray(values(i))))
    return tmp_path


def convert(root: Path, name: str = "out", **options: Any) -> stoker.Dataset:
    options = {"allow_loss": 1, **options}  # tests look at the skipped parts
    stoker.convert(root / "images", root / name, **convert_options({"masks": root / "masks", **options}))
    return stoker.open(root / name)


def test_progress_counts_bytes_of_masks_and_of_finished_shards(root: Path) -> None:
    expected = sum(file.stat().st_size for kind in ("images", "masks") for file in root.glob(f"{kind}/*/*"))
    seen: list[tuple[int, int, int, str]] = []

    def stop(*state: Any) -> None:
        seen.append(state)
        if state[-1] == "publishing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(root, shards=2, progress=stop)
    convert(root, shards=2, progress=lambda *state: seen.append(state))
    assert [state for state in seen if state[-1] == "publishing"] == [(4, 4, expected, "publishing")] * 2


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_masks_are_kept_byte_for_byte(root: Path, container: Any) -> None:
    names = ("wall", "building", *map(str, range(2, 256)))
    (root / "masks" / "classes.txt").write_text("\n".join(names))
    dataset = convert(root, format=container, shards=2)
    assert dataset.tasks == {"segmentation"}
    assert dataset.keys(range(4)) == ["a/0.jpg", "a/2.jpg", "b/1.jpg", "b/3.jpg"]
    for position, key in enumerate(dataset.keys(range(4))):
        assert dataset.mask(position) == (root / "masks" / key).with_suffix(".png").read_bytes()
        assert dataset.read(position) == (root / "images" / key).read_bytes()
    assert dataset.manifest.annotations.ignore == 255
    assert dataset.manifest.annotations.mask_classes == names
    assert stoker.verify(dataset.path, decode=True).ok


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_flipped_bit_in_a_mask_is_found(root: Path, container: Any) -> None:
    dataset = convert(root, format=container, shards=1)
    offset = int(dataset.column("mask_offset")[2]) + 50
    data = bytearray(dataset.data_files[0].read_bytes())
    data[offset] ^= 4
    dataset.data_files[0].write_bytes(data)
    with pytest.raises(CorruptRecordError, match="the mask's checksum") as caught:
        dataset.mask(2)
    assert caught.value.key == "b/1.jpg"
    messages = [problem.message for problem in stoker.verify(dataset.path).problems if problem.record == 2]
    assert any(message.startswith("the mask's checksum") for message in messages)


def test_padding_of_resized_masks_has_the_ignored_value(root: Path) -> None:
    dataset = convert(root, resize="fill=48x48", ignore_index=200)
    mask = decode(dataset.mask(0))
    assert mask.shape == (48, 48)
    np.testing.assert_array_equal(mask[:8], 200)
    np.testing.assert_array_equal(mask[-8:], 200)
    source = values(0)
    rows, columns = ((np.arange(n) + 0.5) * size // n for n, size in ((32, H), (48, W)))
    np.testing.assert_array_equal(mask[8:40], source[rows.astype(int)[:, None], columns.astype(int)])
    assert dataset.manifest.annotations.ignore == 200
    assert stoker.verify(dataset.path, decode=True).ok


@pytest.mark.parametrize(("background", "ignore"), [(0, 255), (0, 1), (7, 3)])
def test_masks_whose_foreground_is_ignored_are_refused(root: Path, background: int, ignore: int) -> None:
    files = sorted(root.glob("masks/*/*"))
    for file in files:
        pixels = np.full((H, W), background, np.uint8)
        pixels[: 8 * (file != files[0])] = ignore  # the first shows background alone
        Image.fromarray(pixels).save(file)
    mask_map = f"{background}:0,{ignore}:1"
    with pytest.raises(ConfigError, match=f"no values but {background} and {ignore}") as caught:
        convert(root, ignore_index=ignore)
    assert f"mask_map='{mask_map}'" in str(caught.value.hint)
    dataset = convert(root, "mapped", ignore_index=255, mask_map=mask_map)
    assert np.unique(decode(dataset.mask(1))).tolist() == [0, 1]
    assert np.unique(decode(convert(root, "kept", mask_map="none").mask(0))).tolist() == [background]
    for file in files:
        Image.new("L", (W, H), ignore).save(file)
    with pytest.raises(ConfigError, match=f"no values but 0 and {ignore}"):
        convert(root, ignore_index=ignore)


def test_the_masks_of_cvat_are_read_by_their_labelmap_and_their_lists(tmp_path: Path) -> None:
    for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (tmp_path / name).mkdir(parents=True)
    for number, color in enumerate([(0, 0, 0), (250, 50, 83), (250, 50, 83)]):
        Image.new("RGB", (8, 6)).save(tmp_path / f"JPEGImages/{number}.jpg")
        Image.new("RGB", (8, 6), color).save(tmp_path / f"SegmentationClass/{number}.png")
    chosen = tmp_path / "ImageSets/Segmentation/train.txt"
    chosen.write_text("1\n0\n")
    labelmap = tmp_path / "labelmap.txt"
    labelmap.write_text("# label:color_rgb:parts:actions\nbackground:0,0,0::\nowl:250,50,83::\n")
    with pytest.raises(ConfigError, match=r"(?s)need the folder of the masks.*/SegmentationClass"):
        stoker.convert(chosen, tmp_path / "out")
    masks = {"masks": tmp_path / "SegmentationClass", "mask_map": str(labelmap)}
    dataset = converted(chosen, tmp_path / "out", **masks)
    assert dataset.keys(range(2)) == ["0.jpg", "1.jpg"]
    assert [decode(dataset.mask(row)).max() for row in range(2)] == [0, 1]
    assert dataset.manifest.annotations.mask_classes == ("background", "owl")
    chosen.write_text("1\n9\n")
    assert converted(chosen, tmp_path / "less", **masks, allow_loss=1).manifest.skipped == {
        "listed image that is missing": 1
    }
    for wrong in ("owl", "owl:1,2", "owl:1,2,300", ""):
        labelmap.write_text(wrong)
        with pytest.raises(ConfigError, match=r"a labelmap\.txt must have lines such as"):
            converted(chosen, tmp_path / "none", **masks)


@pytest.mark.usefixtures("every_event")
def test_masks_of_ade20k_without_a_map_are_taken_with_a_warning(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    convert(root, "other")
    for file in [*root.glob("images/*/*"), *root.glob("masks/*/*")]:
        file.rename(file.with_name(f"ADE_train_{file.name}"))
    convert(root, "mapped", mask_map="ade20k")
    convert(root, "kept", mask_map="none")
    assert not caplog.records
    convert(root)
    (said,) = caplog.messages
    assert "masks such as a/ADE_train_0.png are taken as classes as they are, so class 0 is" in said
    assert "mask_map='ade20k'" in said
    (root / "classes.txt").write_text("\n".join(map(str, range(151))))
    convert(root, "named")
    assert caplog.messages == [said]


def test_masks_of_cityscapes_are_found_by_their_endings(tmp_path: Path) -> None:
    for kind in ("leftImg8bit/train/ulm", "gtFine/train/ulm"):
        (tmp_path / kind).mkdir(parents=True)
    for i in range(2):
        image = Image.fromarray(np.zeros((H, W, 3), np.uint8))
        image.save(tmp_path / "leftImg8bit/train/ulm" / f"ulm_{i}_leftImg8bit.png")
        for seed, ending in enumerate(("color", "instanceIds", "labelIds", "labelTrainIds")[: 4 - i]):
            path = tmp_path / "gtFine/train/ulm" / f"ulm_{i}_gtFine_{ending}.png"
            path.write_bytes(png(Image.fromarray(values(seed))))
    folders = {"source": tmp_path / "leftImg8bit", "masks": tmp_path / "gtFine"}
    with pytest.raises(
        ConfigError, match=r"ulm_1_gtFine_labelIds.png are Cityscapes' labelIds, which are not"
    ):
        stoker.convert(target=tmp_path / "out", **convert_options(folders))
    with pytest.raises(ConfigError, match=r"ulm_0_gtFine_labelTrainIds.png are the training classes already"):
        stoker.convert(target=tmp_path / "out", **convert_options({"mask_map": "cityscapes", **folders}))
    stoker.convert(target=tmp_path / "out", **convert_options({"mask_map": "none", **folders}))
    dataset = stoker.open(tmp_path / "out")
    np.testing.assert_array_equal(decode(dataset.mask(0)), values(3))
    np.testing.assert_array_equal(decode(dataset.mask(1)), values(2))


def test_a_name_that_occurs_twice_matches_no_mask(root: Path) -> None:
    (root / "images" / "a" / "0.jpg").rename(root / "images" / "0.jpg")
    (root / "masks" / "b" / "0.png").write_bytes((root / "masks" / "a" / "0.png").read_bytes())
    dataset = convert(root)
    assert dataset.manifest.skipped == {"image without a mask": 1}
    assert "0.jpg" not in dataset.keys(range(3))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "broken mask"),
        (png(Image.fromarray(values()))[:-30], "broken mask"),
        (png(Image.fromarray(values(size=(H, W + 1)))), "mask of another size than its image"),
        (png(Image.fromarray(np.zeros((H, W, 3), np.uint8))), "mask of more than one channel"),
        (tiff(70_000), "mask of numbers that are not from 0 to 65535"),
        (tiff(-1), "mask of numbers that are not from 0 to 65535"),
        (tiff(1.5), "mask of floating-point numbers"),
        (encode(Image.fromarray(values())), "mask in JPEG, which changes values"),
        (None, "image without a mask"),
    ],
)
def test_an_image_whose_mask_cannot_be_used_is_left_out(
    root: Path, content: bytes | None, reason: str
) -> None:
    path = root / "masks" / "a" / "2.png"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    dataset = convert(root)
    assert len(dataset) == 3
    (skip,) = map(json.loads, (dataset.path / "skipped.jsonl").read_text().splitlines())
    assert (skip["key"], skip["reason"]) == ("a/2.jpg", reason)


def test_objects_stay_with_their_images_if_an_image_has_no_mask(root: Path) -> None:
    for i in range(4):
        file = root / "labels" / f"{'ab'[i % 2]}/{i}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{i} 0.5 0.5 0.5 0.5\n")
    (root / "masks" / "a" / "0.png").unlink()
    dataset = converted(
        root / "images", root / "out", masks=root / "masks", source_format="yolo", allow_loss=1
    )
    keys = dataset.keys(range(3))
    assert [int(Path(key).stem) for key in keys] == dataset.annotations(range(3)).labels.tolist() == [2, 1, 3]


def test_a_changed_mask_changes_the_fingerprint(root: Path) -> None:
    def fingerprint(**options: Any) -> str:
        given = {"masks": root / "masks", **options}
        source = Source(root / "images", SourceOptions(**given))
        return list_source(source, find_format(source, "pairs")).fingerprint()

    before = fingerprint()
    assert fingerprint() == before
    assert fingerprint(ignore_index=0) != before
    path = root / "masks" / "a" / "0.png"
    path.rename(root / "masks" / "a" / "0.bmp")
    renamed = fingerprint()
    (root / "masks" / "a" / "0.bmp").rename(path)
    os.utime(path, ns=(0, 0))
    touched = fingerprint()
    path.write_bytes(path.read_bytes() + b"\0")
    os.utime(path, ns=(0, 0))
    assert len({before, renamed, touched, fingerprint()}) == 4


def test_masks_are_found_in_other_folders_among_other_masks(root: Path) -> None:
    for path in list((root / "masks").rglob("*.png")):
        path.rename(root / "masks" / path.name)
    (root / "masks" / "a" / "other.tif").write_bytes(tiff(1))
    (root / "masks" / "a" / "other.png").write_bytes(png(Image.fromarray(values())))
    (root / "list.csv").write_text("path,label\nimages/a/0.jpg,x\nimages/b/1.jpg,y\nimages/b/3.jpg,y\n")
    dataset = converted(root / "list.csv", root / "list", masks=root / "masks")
    assert (len(dataset), dataset.tasks) == (3, {"label", "segmentation"})
    # Large enough for all the images, and not for their masks.
    source = Source(root / "images", SourceOptions(masks=root / "masks"))
    listing = list_source(source, find_format(source))
    assert listing.masks is not None
    size = int(listing.sizes.sum()) + 4 * 300 + int(listing.masks.sizes.sum()) // 2
    dataset = convert(root, shard_size=size)
    assert (len(dataset), len(dataset.manifest.shards)) == (4, 2)


def test_masks_and_options_that_do_not_fit_are_refused(root: Path) -> None:
    (root / "none").mkdir()
    for options, message in (
        ({"ignore_index": -1}, "ignore_index"),
        ({"masks": None, "source_format": "pairs"}, "need the folder of the masks"),
        ({"images": root}, "images is for sources of the format list or coco or open_images"),
        ({"masks": root / "none"}, "not one of 4 images has a mask among 0"),
    ):
        with pytest.raises((ConfigError, SourceError), match=message):
            convert(root, **options)
    (root / "masks" / "a" / "0.tif").write_bytes(tiff(1))
    with pytest.raises(SourceError, match=r"more than one mask: a/0\.png, a/0\.tif"):
        convert(root)


def save(path: Path, values: Any, palette: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.asarray(values))
    if palette:
        image.putpalette(list(range(256)) * 3)
    image.save(path)


def blank(kind: Any = np.uint8) -> np.ndarray[Any, Any]:
    return np.zeros((H, W), kind)


def photo(path: Path) -> None:
    save(path, np.full((H, W, 3), 90, np.uint8))


def cityscapes(root: Path) -> tuple[Path, Path]:
    """Two images of a city: a car, a person behind it in two parts, a group of people, and road."""
    for name in ("ulm_000000", "ulm_000001"):
        values = blank(np.uint16)
        values[10:] = 7
        values[4:9, 2:20] = 24001
        values[6:12, 8:14] = 26000
        values[2:5, 22:28] = 24
        values[0, 0], values[0, 1] = 29001, 65535
        photo(root / "leftImg8bit" / "train" / "ulm" / f"{name}_leftImg8bit.png")
        folder = root / "gtFine" / "train" / "ulm"
        save(folder / f"{name}_gtFine_instanceIds.png", values)
        ids = np.where(values >= 1000, values // 1000, values).astype(np.uint8)
        save(folder / f"{name}_gtFine_labelIds.png", np.where(ids == 29, 29, ids) * (values < 65535))
    return root / "leftImg8bit" / "train", root / "gtFine" / "train"


def voc(root: Path) -> Path:
    """An image with a cat (8) and two people (15), whose border is void."""
    objects, classes = blank(), blank()
    for value, (label, box) in enumerate({8: (2, 2, 9, 9), 15: (12, 2, 18, 12)}.items(), 1):
        left, top, right, bottom = box
        objects[top - 1 : bottom + 1, left - 1 : right + 1] = 255
        classes[top - 1 : bottom + 1, left - 1 : right + 1] = 255
        objects[top:bottom, left:right], classes[top:bottom, left:right] = value, label
    objects[15:18, 20:25], classes[15:18, 20:25] = 3, 15
    photo(root / "JPEGImages" / "2007_000001.jpg")
    save(root / "SegmentationObject" / "2007_000001.png", objects, palette=True)
    save(root / "SegmentationClass" / "2007_000001.png", classes, palette=True)
    return root


def test_objects_of_cityscapes_have_its_classes_and_groups_are_crowds(tmp_path: Path) -> None:
    images, masks = cityscapes(tmp_path)
    dataset = converted(images, tmp_path / "out", instances=masks, masks=masks, mask_map="cityscapes")
    found = dataset.annotations([0])
    assert [dataset.classes[label] for label in found.labels] == ["person", "person", "car"]
    assert found.crowd.tolist() == [True, False, False]
    assert found.boxes.tolist() == [[22, 2, 28, 5], [2, 4, 20, 9], [8, 6, 14, 12]]
    assert found.area.tolist() == [18, 72, 36]
    assert found.id.tolist() == [24, 24001, 26000]
    assert dataset.category_ids[:3] == (24, 25, 26)
    assert {"boxes", "instances", "segmentation"} <= set(dataset.tasks)


def test_objects_of_voc_take_their_classes_from_the_mask_of_classes(tmp_path: Path) -> None:
    root = voc(tmp_path / "VOC2012")
    classes, objects = root / "SegmentationClass", root / "SegmentationObject"
    dataset = converted(root / "JPEGImages", tmp_path / "out", masks=classes, instances=objects)
    found = dataset.annotations([0])
    assert [dataset.classes[label] for label in found.labels] == ["cat", "person", "person"]
    assert found.boxes.tolist() == [[2, 2, 9, 9], [12, 2, 18, 12], [20, 15, 25, 18]]
    columns = ("image", "boxes", "masks", "to_source", "source_size")
    loader = stoker.ImageLoader(dataset, batch_size=1, columns=columns, transforms=[Resize((2 * H, 2 * W))])
    with loader:
        batch = next(iter(loader))
    whole = masks_to_source(batch.masks[0], batch.to_source[0], batch.source_size[0])
    stored = np.asarray(Image.open(objects / "2007_000001.png"))
    np.testing.assert_array_equal(whole, [stored == value for value in (1, 2, 3)])


def test_values_of_class_and_number_without_names_are_labels(tmp_path: Path) -> None:
    values = blank(np.uint16)
    values[2:5, 2:5], values[8:12, 8:12], values[0, 0] = 1001, 2003, 255
    photo(tmp_path / "images" / "a.jpg")
    save(tmp_path / "objects" / "a.png", values)
    found = converted(tmp_path / "images", tmp_path / "out", instances=tmp_path / "objects").annotations([0])
    assert (found.labels.tolist(), found.id.tolist()) == ([1, 2], [1001, 2003])


def test_run_lengths_are_those_of_pycocotools() -> None:
    coco_mask = pytest.importorskip("pycocotools.mask", reason="pip install pycocotools")
    rng = np.random.default_rng(0)
    values = np.kron(rng.integers(0, 4, (6, 6)), np.ones((4, 6), int)).astype(np.uint16)
    for one in instances_of(values):
        mask = np.asfortranarray(values == one.value, np.uint8)
        encoded = coco_mask.encode(mask)
        assert coco_mask.frPyObjects({"counts": one.runs.tolist(), "size": [H, W]}, H, W) == encoded
        left, top, width, height = coco_mask.toBbox(encoded)
        assert one.box == (left, top, left + width, top + height)
        assert one.area == coco_mask.area(encoded)


Change = Callable[[Path, Path], object]
"""A change of a mask of objects and of its mask of classes, given the paths of both."""


def replaced(suffix: str, values: np.ndarray[Any, Any]) -> Change:
    """Replace the mask of objects by a file with another suffix."""

    def change(objects: Path, classes: Path) -> None:
        objects.unlink()
        save(objects.with_suffix(suffix), values)

    return change


def with_classes(values: np.ndarray[Any, Any]) -> Change:
    return lambda objects, classes: save(classes, values)


def enlarged(objects: Path, classes: Path) -> None:
    for mask in (objects, classes):
        save(mask, np.ones((H + 1, W), np.uint8))


LEFT_OUT = "instance mask that is left out"
CHANGES: dict[str, tuple[Change, str]] = {
    "missing": (lambda objects, classes: objects.unlink(), "image without an instance mask"),
    "cut short": (lambda objects, classes: objects.write_bytes(objects.read_bytes()[:-30]), LEFT_OUT),
    "JPEG": (replaced(".jpg", blank()), LEFT_OUT),
    "floats": (replaced(".tif", blank(np.float32)), LEFT_OUT),
    "colours": (replaced(".png", np.zeros((H, W, 3), np.uint8)), LEFT_OUT),
    "other size": (enlarged, "image of another size than its annotations say"),
    "background": (with_classes(blank()), "object without a class in the class mask"),
    "class beyond the names": (with_classes(blank() + 21), "object of an unknown category"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_mask_of_objects_that_cannot_be_used_is_counted(
    tmp_path: Path, change: Change, reason: str
) -> None:
    root = voc(tmp_path / "VOC")
    for folder in ("JPEGImages", "SegmentationClass", "SegmentationObject"):
        file = next((root / folder).iterdir())
        (root / folder / f"2007_000002{file.suffix}").write_bytes(file.read_bytes())
    classes, objects = root / "SegmentationClass", root / "SegmentationObject"
    change(objects / "2007_000002.png", classes / "2007_000002.png")
    summary = stoker.convert(
        root / "JPEGImages",
        tmp_path / "out",
        source_options=stoker.SourceOptions(masks=classes, instances=objects),
        selection=stoker.Selection(allow_loss=1),
    )
    assert reason in summary.skipped, summary.skipped
    assert len(stoker.open(tmp_path / "out").annotations([0])) == 3


def test_masks_of_objects_without_classes_are_refused_with_the_option(tmp_path: Path) -> None:
    root = voc(tmp_path / "VOC")
    with pytest.raises(SourceError, match=r"(?s)not one of 1 masks has an object.*masks"):
        converted(root / "JPEGImages", tmp_path / "out", instances=root / "SegmentationObject")


def test_masks_of_objects_beside_labels_or_mapped_classes_are_refused(tmp_path: Path) -> None:
    root = voc(tmp_path / "VOC")
    classes, objects = root / "SegmentationClass", root / "SegmentationObject"
    with pytest.raises(ConfigError, match="mask_map"):
        converted(root / "JPEGImages", tmp_path / "out", masks=classes, instances=objects, mask_map={1: 0})
    (root / "list.csv").write_text("path,label\nJPEGImages/2007_000001.jpg,a\n")
    with pytest.raises(ConfigError, match="labels of images"):
        converted(root / "list.csv", tmp_path / "out", instances=objects)


@pytest.mark.parametrize("folder", ["masks", "images"])
@pytest.mark.parametrize("ending", ["_mask", "-mask", "_seg"])
def test_masks_may_have_an_ending_and_lie_beside_their_images(
    tmp_path: Path, folder: str, ending: str
) -> None:
    for name in ("images", folder):
        (tmp_path / name).mkdir(exist_ok=True)
    for number in range(2):
        Image.new("RGB", (8, 6)).save(tmp_path / "images" / f"{number}.jpg")
        Image.fromarray(np.full((6, 8), number, np.uint8)).save(tmp_path / folder / f"{number}{ending}.png")
    dataset = converted(tmp_path / "images", tmp_path / "out", masks=tmp_path / folder)
    assert dataset.keys(range(len(dataset))) == ["0.jpg", "1.jpg"]
    assert dataset.manifest.skipped == {}
