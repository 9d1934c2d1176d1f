"""Tests of images with masks of classes as a source."""

from __future__ import annotations

import json
import os
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
from stoker.errors import ConfigError, CorruptRecordError, SourceError
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


def test_masks_are_found_in_folders_that_are_nested_differently(root: Path) -> None:
    for path in list((root / "masks").rglob("*.png")):
        path.rename(root / "masks" / path.name)
    assert len(convert(root)) == 4


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


def test_a_list_with_labels_may_have_masks(root: Path) -> None:
    (root / "list.csv").write_text("path,label\nimages/a/0.jpg,x\nimages/b/1.jpg,y\nimages/b/3.jpg,y\n")
    options = stoker.SourceOptions(masks=root / "masks")
    stoker.convert(root / "list.csv", root / "out", val="50%", source_options=options)
    train, val = (stoker.open(root / "out" / split) for split in ("train", "val"))
    assert train.tasks == val.tasks == {"label", "segmentation"}
    assert len(train) + len(val) == 3


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


def test_shard_sizes_count_images_and_masks(root: Path) -> None:
    source = Source(root / "images", SourceOptions(masks=root / "masks"))
    listing = list_source(source, find_format(source))
    assert listing.masks is not None
    assert (listing.bytes == listing.sizes + listing.masks.sizes).all()
    # Large enough for all the images, and not for their masks.
    size = int(listing.sizes.sum()) + 4 * 300 + int(listing.masks.sizes.sum()) // 2
    assert len(convert(root, shard_size=size).manifest.shards) == 2


def test_options_that_do_not_fit_masks_are_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="ignore_index"):
        convert(root, ignore_index=-1)
    with pytest.raises(ConfigError, match="need the folder of the masks"):
        converted(root / "images", root / "out", source_format="pairs")
    message = "images is for sources of the format list or coco or open_images"
    with pytest.raises(ConfigError, match=message):
        converted(root / "images", root / "out", images=root)


def test_a_folder_without_masks_is_refused(root: Path) -> None:
    (root / "none").mkdir()
    with pytest.raises(SourceError, match="not one of 4 images has a mask among 0"):
        converted(root / "images", root / "out", masks=root / "none")


def test_masks_of_no_image_are_ignored(root: Path) -> None:
    (root / "masks" / "a" / "other.tif").write_bytes(tiff(1))
    (root / "masks" / "a" / "other.png").write_bytes(png(Image.fromarray(values())))
    assert len(convert(root)) == 4


def test_two_masks_of_an_image_are_refused(root: Path) -> None:
    (root / "masks" / "a" / "0.tif").write_bytes(tiff(1))
    with pytest.raises(SourceError, match=r"more than one mask: a/0\.png, a/0\.tif"):
        convert(root)
