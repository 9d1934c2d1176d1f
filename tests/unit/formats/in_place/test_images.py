"""Tests of images that are read in place, by ``stoker.open``, by loaders and through ``stoker index``."""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow.compute as pc
import pytest
from helpers.loaders import image_arguments
from PIL import Image

import stoker
from stoker.augment import Resize
from stoker.errors import (
    ConfigError,
    CorruptRecordError,
    DatasetError,
    SampleError,
    SourceError,
    StorageError,
)
from stoker.formats.in_place.images import index_images
from stoker.formats.in_place.shards import index
from stoker.formats.verify import verify

Picture = Callable[..., bytes]

LONG_AGO = (1e9, 1e9)

pytestmark = pytest.mark.usefixtures("cache")


def index_file(dataset: stoker.Dataset) -> int:
    """The number of the index's file, which is another one after each listing of the source."""
    return (dataset.path / "index.arrow").stat().st_ino


def age_folders(root: Path) -> None:
    """Give the folders a time of change long before the test, as the folders of a user have."""
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        os.utime(folder, LONG_AGO)


def batches(source: Any, **options: Any) -> list[Any]:
    with stoker.ImageLoader(
        source, **image_arguments(batch_size=8, transforms=[Resize((24, 32))], **options)
    ) as loader:
        return list(loader)


@pytest.mark.parametrize("options", [{}, {"mapped": False}, {"engine": "reference"}])
def test_a_folder_gives_the_batches_of_its_shards(
    photos: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    stoker.convert(photos, tmp_path / "shards")
    tolerance = 0 if options.get("engine") is None else 2 / 255
    converted = batches(tmp_path / "shards", shuffle=True)
    for batch, expected in zip(batches(photos, shuffle=True, **options), converted, strict=True):
        np.testing.assert_array_equal(batch.label, expected.label)
        np.testing.assert_allclose(batch.image, expected.image, atol=tolerance)


def test_all_codecs_and_orientations_have_the_headers_of_a_conversion(
    tmp_path: Path, encode_picture: Picture
) -> None:
    root = tmp_path / "a"
    (root / "x").mkdir(parents=True)
    for kind in ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"):
        for orientation in (1, 6):
            if (kind, orientation) not in (("BMP", 6), ("GIF", 6)):
                data = encode_picture(orientation, kind, orientation)
                (root / "x" / f"{orientation}.{kind.lower()}").write_bytes(data)
    stoker.convert(root, tmp_path / "shards")
    in_place, converted = stoker.open(root), stoker.open(tmp_path / "shards")
    assert len(in_place) == 10
    for name in ("key", "codec", "height", "width", "orientation", "length", "label"):
        assert in_place.index.arrow(name).equals(converted.index.arrow(name)), name
    assert [in_place.read(i) for i in range(10)] == [converted.read(i) for i in range(10)]


def test_a_header_behind_a_long_colour_profile_is_found(photos: Path, encode_picture: Picture) -> None:
    data = encode_picture(0)
    segment = b"\xff\xe2" + (65535).to_bytes(2, "big") + bytes(65533)
    (photos / "cat" / "0.jpg").write_bytes(data[:2] + segment + data[2:])
    opened = stoker.open(photos)
    assert len(opened) == 30
    assert opened.column("height")[0] == 24


def test_broken_files_are_counted_and_left_out(photos: Path) -> None:
    whole = (photos / "cat" / "0.jpg").read_bytes()
    (photos / "cat" / "0.jpg").write_bytes(whole[:-40])
    (photos / "cat" / "1.jpg").write_bytes(b"no image")
    (photos / "cat" / "notes.txt").write_text("x")
    opened = stoker.open(photos)
    assert len(opened) == 28
    assert opened.manifest.skipped == {"broken image": 1, "not an image": 2}


def test_an_unchanged_folder_is_not_listed_again(photos: Path) -> None:
    age_folders(photos)
    first = index_file(stoker.open(photos))
    assert index_file(stoker.open(f"{photos}/")) == first
    (photos / "cat" / "new.jpg").write_bytes((photos / "cat" / "0.jpg").read_bytes())
    changed = stoker.open(photos)
    assert len(changed) == 31
    assert index_file(changed) != first


def test_a_folder_that_changes_while_it_is_listed_is_listed_again(photos: Path) -> None:
    os.utime(photos / "cat", (1e11, 1e11))  # later than the listing
    assert index_file(stoker.open(photos)) != index_file(stoker.open(photos))


def test_a_folder_with_a_changed_file_is_listed_again(photos: Path, encode_picture: Picture) -> None:
    age_folders(photos)
    stoker.open(photos)
    (photos / "dog" / "0.jpg").write_bytes(encode_picture(77, height=40, width=50))
    age_folders(photos)
    assert stoker.open(photos).column("height")[10] == 40


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("change", ["bytes", "time", "gone", "folder"])
def test_a_file_that_changes_after_it_was_listed_is_an_error_that_names_it(
    photos: Path, change: str, engine: str
) -> None:
    opened = stoker.open(photos)
    file = photos / "dog" / "3.jpg"
    if change == "bytes":
        file.write_bytes(file.read_bytes() + b"\0")
    elif change == "time":
        os.utime(file, LONG_AGO)
    else:
        file.unlink()
    if change == "folder":
        file.mkdir()
    with pytest.raises(SampleError) as caught:
        batches(opened, engine=engine)
    assert caught.value.path == str(file)
    assert caught.value.key == "dog/3.jpg"
    expected = {"gone": "No such file", "folder": "regular file"}.get(change, "changed since it was listed")
    assert expected in str(caught.value)
    with pytest.raises(StorageError if change == "gone" else CorruptRecordError, match=expected):
        opened.read(13)
    with pytest.warns(UserWarning, match="skipped, 'dog/3.jpg'"):
        remaining = batches(opened, on_error="skip", max_bad=1, engine=engine)
    assert sum(len(batch.label) for batch in remaining) == 29


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_share_that_vanishes_skips_no_sample(photos: Path, engine: str) -> None:
    opened = stoker.open(photos)
    photos.rename(photos.with_name("elsewhere"))
    with pytest.raises(StorageError, match="No such file"):
        batches(opened, on_error="skip", max_bad=1, engine=engine)
    photos.with_name("elsewhere").rename(photos)
    assert sum(len(batch.label) for batch in batches(opened, on_error="skip", engine=engine)) == 30


def test_a_file_that_is_replaced_is_read_where_its_folder_is_opened_again(
    photos: Path, encode_picture: Picture
) -> None:
    stoker.open(photos).read(0)
    (photos / "cat" / "0.jpg").write_bytes(encode_picture(77, height=40, width=50))
    age_folders(photos)
    assert stoker.open(photos)[0].image.shape == (40, 50, 3)


@pytest.mark.parametrize("year", [1901, 2300])
def test_a_file_of_any_time_is_read_in_place_and_converted(photos: Path, tmp_path: Path, year: int) -> None:
    seconds = (year - 1970) * 31_556_952
    for changed in (photos / "cat" / "0.jpg", photos / "cat"):
        os.utime(changed, (seconds, seconds))
    for _ in range(2):  # the second time from the cache
        assert sum(len(batch.label) for batch in batches(photos)) == 30
    stoker.convert(photos, tmp_path / "out")
    assert stoker.convert(photos, tmp_path / "out").already


def test_a_folder_whose_path_is_not_utf_8_is_refused(photos: Path) -> None:
    with pytest.raises(SourceError, match="not UTF-8"):
        stoker.open(photos.rename(os.fsdecode(os.fsencode(photos) + b"\xff")))


def test_a_folder_that_this_user_may_not_read_is_an_error_of_stoker(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(photos))
    monkeypatch.setattr(Path, "exists", Mock(side_effect=denied))
    with pytest.raises(StorageError, match="Permission denied"):
        stoker.open(photos)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_listing_with_a_damaged_name_is_an_error_of_its_sample(
    photos: Path, tmp_path: Path, engine: str
) -> None:
    index_images(photos, tmp_path / "index")
    listing = next((tmp_path / "index").glob("*.listing"))
    listing.write_bytes(listing.read_bytes().replace(b"dog/3.jpg", b"dog/\xff.jpg"))
    with pytest.raises(SampleError):
        batches(tmp_path / "index", engine=engine)
    with pytest.raises(SampleError):
        stoker.open(tmp_path / "index").read(13)
    assert not verify(tmp_path / "index").ok


def test_a_folder_without_folders_has_images_without_labels(photos: Path) -> None:
    (batch, *_) = batches(photos / "cat")
    assert batch._fields == ("image",)
    assert stoker.open(photos / "cat").classes == ()


def test_a_list_is_read_in_place(photos: Path) -> None:
    with (photos / "list.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "score"])
        rows.writerows([f"{name}/{i}.jpg", name, i / 2] for name in ("dog", "cat") for i in (2, 1))
    opened = stoker.open(photos / "list.csv")
    assert opened.classes == ("cat", "dog")
    assert opened.keys(range(4)) == ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg"]
    assert opened.column("score").tolist() == [0.5, 1.0, 0.5, 1.0]
    (batch,) = batches(photos / "list.csv", columns=("label", "score"))
    assert batch.score.tolist() == [0.5, 1.0, 0.5, 1.0]


def test_a_folder_can_be_selected_from_and_mixed_with_shards(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "shards")
    cats = stoker.open(photos).select(pc.field("label") == 0)
    mixed = stoker.mix([(cats, 1), (tmp_path / "shards", 3)])
    keys = [key for batch in batches(mixed, columns=("image", "key")) for key in batch.key]
    assert len(keys) == 40
    assert {key for key in keys if keys.count(key) == 2} == {f"cat/{i}.jpg" for i in range(10)}


def test_an_index_and_its_folder_may_be_moved_together(photos: Path, tmp_path: Path) -> None:
    manifest = index_images(photos, photos.parent / "index")
    assert manifest.index.rows == 30
    (tmp_path / "moved").mkdir()
    for folder in (photos, photos.parent / "index"):
        folder.rename(tmp_path / "moved" / folder.name)
    moved = stoker.open(tmp_path / "moved" / "index")
    assert moved.read(12) == (tmp_path / "moved" / "photos" / "dog" / "2.jpg").read_bytes()


def test_an_index_does_not_replace_a_dataset(photos: Path, tmp_path: Path) -> None:
    index_images(photos, tmp_path / "index")
    with pytest.raises(DatasetError, match="dataset already"):
        index_images(photos, tmp_path / "index")


def test_verify_finds_missing_files_and_with_decoding_damaged_ones(photos: Path, tmp_path: Path) -> None:
    index_images(photos, tmp_path / "index")
    assert verify(tmp_path / "index", decode=True).ok
    damaged = photos / "cat" / "5.jpg"
    times = damaged.stat()
    damaged.write_bytes(damaged.read_bytes()[:-60] + bytes(60))
    os.utime(damaged, ns=(times.st_atime_ns, times.st_mtime_ns))
    (photos / "eel" / "9.jpg").unlink()
    assert [problem.key for problem in verify(tmp_path / "index").problems] == ["eel/9.jpg"]
    problems = verify(tmp_path / "index", decode=True).problems
    assert [problem.key for problem in problems] == ["cat/5.jpg", "eel/9.jpg"]


def test_a_damaged_listing_is_refused(photos: Path, tmp_path: Path) -> None:
    index_images(photos, tmp_path / "index")
    file = tmp_path / "index" / "files.listing"
    data = bytearray(file.read_bytes())
    data[8] += 1
    file.write_bytes(data)
    with pytest.raises((DatasetError, SampleError), match="damaged"):
        batches(tmp_path / "index")


def test_a_class_without_images_is_refused(photos: Path) -> None:
    (photos / "empty").mkdir()
    with pytest.raises(SourceError, match="classes without an image: empty"):
        stoker.open(photos)


def test_a_source_that_cannot_be_read_in_place_is_refused_with_a_hint(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "coco.json").write_text('{"images": [], "annotations": [], "categories": []}')
    with pytest.raises(SourceError, match=r"format coco.*\n.*stoker.convert"):
        stoker.open(tmp_path / "coco.json")
    with pytest.raises(SourceError, match=r"URL cannot be read in place.*\n.*stoker.convert"):
        index_images("memory://bucket/photos", tmp_path / "index")


def test_a_missing_folder_is_not_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    with pytest.raises(DatasetError, match=r"there is no trian in (?s:.)*Did you mean .*/train\?"):
        stoker.open(tmp_path / "trian/cat")
    (tmp_path / "photos.zip").touch()
    with pytest.raises(SourceError, match=r"is packed(?s:.)*Unpack it first"):
        stoker.open(tmp_path / "photos.zip")


def test_only_the_start_and_the_end_of_a_jpeg_are_read(photos: Path) -> None:
    def bytes_read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    with (photos / "cat" / "0.jpg").open("r+b") as file:
        file.truncate(file.seek(-2, os.SEEK_END))
        file.seek(1 << 30)
        file.write(b"\xff\xd9")
    before = bytes_read()
    assert len(stoker.open(photos)) == 30
    assert bytes_read() - before < 1 << 28


def test_classes_number_images_that_lack_some_of_them(tmp_path: Path) -> None:
    train, val = tmp_path / "training", tmp_path / "validation"
    for folder in (train / "a", train / "b", train / "c", val / "b", val / "c"):
        folder.mkdir(parents=True)
        Image.new("RGB", (32, 24)).save(folder / "1.jpg")
    (val / "a").mkdir()
    with pytest.raises(SourceError, match=r"classes without an image: a(?s:.)*named with classes may lack"):
        stoker.open(val)
    classes = stoker.open(train).classes
    for dataset in (stoker.open(val, classes=classes), stoker.open(val, classes=list(classes))):
        assert (dataset.classes, dataset.labels.tolist()) == (classes, [1, 2])
    assert [batch.label.tolist() for batch in batches(val, classes=classes)] == [[1, 2]]
    for given, hint in ((["a", "b"], "skip_other_classes"), (["A", "b", "C"], "class_map")):
        with pytest.raises(SourceError, match=rf"{hint}(?s:.)*arguments of stoker\.convert"):
            stoker.open(val, classes=given)
    with pytest.raises(ConfigError, match="this source has none") as caught:
        stoker.open(val / "b", classes=classes)
    assert "masks" not in str(caught.value)
    stoker.convert(train, tmp_path / "shards")
    assert stoker.open(tmp_path / "shards", classes=classes).classes == classes
    with pytest.raises(ConfigError, match="classes must be the classes of the dataset"):
        stoker.open(tmp_path / "shards", classes=["c", "b", "a"])
    with pytest.raises(ConfigError, match="classes is for a dataset that is named by its path"):
        batches(stoker.open(val, classes=classes), classes=["b", "c"])


def test_an_index_hides_no_other_images(tmp_path: Path) -> None:
    for folder in ("photos/a", "others/b"):
        (tmp_path / folder).mkdir(parents=True)
        Image.new("RGB", (32, 24)).save(tmp_path / folder / "1.jpg")
    stoker.convert(tmp_path / "photos", tmp_path / "shards")
    shards = stoker.open(tmp_path / "shards").data_files
    for make in (
        lambda: index_images(tmp_path / "photos", tmp_path / "others"),
        lambda: index(shards, tmp_path / "others"),
    ):
        with pytest.raises(DatasetError, match="the target holds other images"):
            make()
    index_images(tmp_path / "photos", tmp_path / "photos")
    assert stoker.open(tmp_path / "others").classes == ("b",)


def test_a_folder_without_labels_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder := tmp_path / "flat").mkdir()
    Image.new("RGB", (32, 24)).save(folder / "1.jpg")
    assert "without labels" in repr(stoker.open(folder))
    assert "have no labels; folders in it would name classes" in caplog.text


def test_an_option_that_a_list_in_place_lacks_is_one_of_conversions(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("id,breed\n1.jpg,pug\n")
    with pytest.raises(SourceError, match=r"label_column='breed'(?s:.)*arguments of stoker\.convert"):
        stoker.open(tmp_path / "list.csv")
