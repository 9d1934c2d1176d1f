"""Converting: sources, targets, options and losses that are refused, and where ``strict`` stops."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import document, write, write_coco_images
from helpers.command_line import run
from helpers.datasets import read_files
from helpers.options import convert, image_writer
from helpers.processes import full_disk
from PIL import Image

import stoker
from stoker.errors import ConfigError, DatasetError, DecodeError, SourceError, StorageError
from stoker.formats.in_place import shards as external_index

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.mark.parametrize("name", ["shard-00000-of-00007.tfrecord", "index.arrow", "skipped.jsonl"])
def test_a_foreign_file_is_not_replaced_without_overwrite(photos: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "out" / "train" / name
    file.parent.mkdir(parents=True)
    file.write_text("of another program")
    with pytest.raises(DatasetError, match="would be replaced") as caught:
        convert(photos, tmp_path / "out", val=0.5)
    assert caught.value.path == str(file)
    assert file.read_text() == "of another program"
    convert(photos, tmp_path / "out", val=0.5, overwrite=True)


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_only_overwrite_replaces_a_dataset_and_no_other_file(
    photos: Path, tmp_path: Path, container: str
) -> None:
    out = tmp_path / "out"
    convert(photos, out, container=container, shards=5)
    before = read_files(out)
    with pytest.raises(DatasetError, match="overwrite"):
        convert(photos, out, shards=2)
    assert read_files(out) == before
    (out / "notes.txt").write_text("kept")
    convert(photos, out, overwrite=True, shards=2)
    convert(photos, tmp_path / "fresh", shards=2)
    assert read_files(out) == {**read_files(tmp_path / "fresh"), "notes.txt": b"kept"}


def test_overwrite_leaves_shards_that_were_only_indexed(photos: Path, tmp_path: Path) -> None:
    convert(photos, tmp_path / "source", shards=1)
    (tmp_path / "out").mkdir()
    shard = tmp_path / "out" / "external.tfrecord"
    before = (tmp_path / "source/shard-00000-of-00001.tfrecord").rename(shard).read_bytes()
    external_index.index([shard], tmp_path / "out")
    convert(photos, tmp_path / "out", seed=1, overwrite=True, shards=1)
    assert stoker.verify(tmp_path / "out").ok
    assert shard.read_bytes() == before


@pytest.mark.parametrize("kind", [None, "coco", "voc", "yolo", "list", "folder"])
def test_a_missing_source_is_refused(tmp_path: Path, kind: Any) -> None:
    with pytest.raises(SourceError, match="there is no nowhere in") as caught:
        convert(tmp_path / "nowhere", tmp_path / "out", source_format=kind, class_depth=1)
    assert caught.value.path == str(tmp_path / "nowhere")


def test_a_source_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(StorageError, match="Permission denied") as caught:
        convert(tmp_path, tmp_path / "out")
    assert caught.value.path == str(tmp_path)


def test_a_target_that_is_a_file_is_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("kept")
    with pytest.raises(ConfigError, match="the target is a file"):
        convert(photos, tmp_path / "out", overwrite=True)
    assert (tmp_path / "out").read_text() == "kept"


@pytest.mark.parametrize("target", ["photos", "photos/out", "photos/cat/../out", "link/out", "."])
def test_the_target_and_its_splits_may_not_lie_in_the_source(
    photos: Path, tmp_path: Path, target: str
) -> None:
    (tmp_path / "link").symlink_to(photos)
    if target == ".":
        photos = photos.rename(tmp_path / "train")
    with pytest.raises(ConfigError, match="lies in the source"):
        convert(photos, tmp_path / target, val="10%" if target == "." else 0)


def test_a_refused_option_leaves_no_folder(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="resize must be"):
        convert(photos, tmp_path / "out", resize="big")
    assert not (tmp_path / "out").exists()


def test_columns_with_the_names_of_origins_are_refused_where_images_are_resized(tmp_path: Path) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    (tmp_path / "list.csv").write_text("path,label,source_height\na.png,0,7\n")
    with pytest.raises(ConfigError, match="class_depth"):
        convert(tmp_path / "list.csv", tmp_path / "out", class_depth=1)
    convert(tmp_path / "list.csv", tmp_path / "out", resize="shorter=10")
    assert stoker.open(tmp_path / "out").column("source_height_").tolist() == [7]
    with (
        pytest.raises(ConfigError, match="'source_scale_x' is a name that the index uses itself"),
        image_writer(tmp_path / "written", resize="shorter=2") as writer,
    ):
        writer.write(np.zeros((4, 4, 3), np.uint8), source_scale_x=1.0)


@pytest.mark.parametrize("kind", ["folder", "list"])
def test_a_class_without_an_image_is_refused(photos: Path, tmp_path: Path, kind: str) -> None:
    source = photos
    if kind == "folder":
        (photos / "fox").mkdir()
    else:
        source = photos / "list.csv"
        source.write_text("path,label\ncat/0.jpg,cat\ndog/0.jpg,dog\nfox/gone.jpg,fox\n")
    with pytest.raises(SourceError, match="classes without an image: fox") as caught:
        convert(source, tmp_path / "out")
    assert "allow_missing_classes" in str(caught.value.hint)
    assert not (tmp_path / "out").exists()
    convert(source, tmp_path / "out", allow_missing_classes=True)
    assert "fox" not in stoker.open(tmp_path / "out").classes


@pytest.mark.parametrize("labels", ["fox", "several"])
def test_a_class_whose_images_are_all_broken_is_refused(photos: Path, tmp_path: Path, labels: str) -> None:
    source = photos
    (photos / "fox").mkdir()
    for number in range(2):
        (photos / "fox" / f"{number}.jpg").write_bytes((photos / "cat" / "0.jpg").read_bytes()[:-40])
    if labels == "several":
        source = photos / "list.json"
        source.write_text(
            '[{"path": "cat/0.jpg", "labels": ["cat"]}, {"path": "fox/1.jpg", "labels": ["cat", "fox"]}]'
        )
    with pytest.raises(
        SourceError, match=r"classes without an image: fox \([12] x broken image.*fox/"
    ) as caught:
        convert(source, tmp_path / "out", val=0.5 if labels == "fox" else 0)
    assert "allow_missing_classes" in str(caught.value.hint)
    with pytest.raises(SourceError, match="classes without an image: fox"):
        stoker.open(source)
    assert convert(source, tmp_path / "out", allow_missing_classes=True).skipped["broken image"] in (1, 2)
    (photos / "fox" / "1.jpg").write_bytes((photos / "cat" / "0.jpg").read_bytes())
    convert(source, tmp_path / "repaired")


def test_a_source_of_links_gives_the_same_dataset_or_is_left_out(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    for folder in photos.iterdir():
        (tmp_path / "links" / folder.name).symlink_to(folder)
    convert(photos, tmp_path / "plain")
    convert(tmp_path / "links", tmp_path / "linked")
    assert stoker.open(tmp_path / "plain").fingerprint == stoker.open(tmp_path / "linked").fingerprint
    with pytest.raises(SourceError, match="no image in a class folder"):
        convert(tmp_path / "links", tmp_path / "out", follow_links=False)


@pytest.mark.parametrize("option", [{"quality": 80}, {"subsampling": "444"}])
def test_options_of_jpegs_are_refused_where_no_jpeg_is_encoded(
    photos: Path, tmp_path: Path, option: dict[str, Any]
) -> None:
    for encoding in ({}, {"encoding": "png"}, {"encoding": "raw", "resize": "squash=8x8"}):
        with pytest.raises(ConfigError, match="is for JPEGs that are encoded"):
            convert(photos, tmp_path / "out", **option, **encoding)
    convert(photos, tmp_path / "resized", resize="shorter=8", **option)
    convert(photos, tmp_path / "jpeg", encoding="jpeg", **option)


class TestStrict:
    def test_strict_stops_and_names_the_file(self, photos: Path, tmp_path: Path) -> None:
        (photos / "dog/3.jpg").write_bytes((photos / "dog/3.jpg").read_bytes()[:-2])
        with pytest.raises(DecodeError, match="strict") as caught:
            convert(photos, tmp_path / "out", strict=True)
        assert caught.value.key == "dog/3.jpg"
        assert read_files(tmp_path / "out") == {}

    @pytest.mark.parametrize("name", ["dog/x.jxl", "fox/x.jpg", "x.jpg", "dog/link.txt"])
    def test_strict_stops_at_a_skipped_file_that_may_be_an_image(
        self, photos: Path, tmp_path: Path, name: str
    ) -> None:
        (photos / "fox").mkdir()
        if "link" in name:
            (photos / name).symlink_to(tmp_path)
        else:
            (photos / name).write_text("x")
        with pytest.raises(SourceError, match="without strict") as caught:
            convert(photos, tmp_path / "out", strict=True)
        assert caught.value.key == name

    @pytest.mark.parametrize("name", [".DS_Store", "._0.jpg", ".git/x.jpg", "Thumbs.db", "notes.txt"])
    def test_strict_skips_files_that_are_no_images(self, photos: Path, tmp_path: Path, name: str) -> None:
        for path in (photos / name, photos / "dog" / name):
            path.parent.mkdir(exist_ok=True)
            path.write_text("x")
        summary = convert(photos, tmp_path / "out", strict=True)
        reason = "hidden" if name.startswith(".") else "not an image"
        assert (summary.written, summary.skipped) == (30, {reason: 2})

    def test_strict_names_the_file_by_its_path_in_the_list(self, photos: Path, tmp_path: Path) -> None:
        broken = photos / "cat" / "1.jpg"
        broken.write_bytes(broken.read_bytes()[:100])
        for path in (broken, broken.relative_to(tmp_path)):
            (tmp_path / "list.csv").write_text(f"path,label\n{path},a\n")
            with pytest.raises(DecodeError) as caught:
                convert(tmp_path / "list.csv", tmp_path / "out", strict=True)
            assert caught.value.path == str(broken)


def test_a_source_without_an_intact_image_is_refused(photos: Path, tmp_path: Path) -> None:
    for file in photos.glob("*/*.jpg"):
        file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(SourceError, match="broken image"):
        convert(photos, tmp_path / "out")
    assert read_files(tmp_path / "out") == {}


def test_a_dataset_whose_path_is_not_utf8_can_neither_be_made_nor_indexed_nor_opened(
    photos: Path, tmp_path: Path
) -> None:
    target = tmp_path / os.fsdecode(b"out\xff")
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        convert(photos, target)
    assert str(caught.value.path).endswith("out\\xff")
    assert not target.exists()
    convert(photos, tmp_path / "out")
    with pytest.raises(ConfigError, match="not UTF-8"):
        external_index.index([stoker.open(tmp_path / "out").data_files[0]], target)
    (tmp_path / "out").rename(target)
    with pytest.raises(SourceError, match="not UTF-8"):
        stoker.open(target)


class TestLoss:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A COCO file of four images and four objects."""
        write_coco_images(tmp_path)
        write(tmp_path, document())
        return tmp_path

    def test_the_command_refuses_missing_images_unless_the_loss_is_allowed(self, folder: Path) -> None:
        for name in ("b.png", "tiny.png", "empty.png"):
            (folder / "images" / name).unlink()
        command = ["convert", folder / "instances.json", folder / "out", "--images", folder / "images"]
        with pytest.raises(SourceError) as refused:
            run(*command)
        text = str(refused.value)
        assert "3 of 5 images and objects would be left out, more than 1%: 3 x unreadable" in text
        assert "allow_loss=0.6" in text
        assert "On the command line: --allow-loss" in text
        assert not (folder / "out").exists()
        run(*command, "--allow-loss", "60%")
        assert stoker.open(folder / "out").keys([0]) == ["a.png"]

    def test_shards_are_published_once_the_loss_is_allowed(self, folder: Path) -> None:
        options = {"images": folder / "images"}
        (folder / "images" / "a.png").write_bytes((folder / "images" / "a.png").read_bytes()[:40])
        with pytest.raises(SourceError, match=r"1 of 8 images and objects would be .*, more than 12\.4%"):
            convert(folder / "instances.json", folder / "out", allow_loss="12.4%", **options)
        assert not (folder / "out" / "dataset.json").exists()
        with full_disk():  # no shard is written again
            convert(folder / "instances.json", folder / "out", allow_loss=0.125, **options)
        assert len(stoker.open(folder / "out")) == 3

    def test_a_folder_of_classes_may_lose_any_share_by_default(
        self, tmp_path: Path, make_jpeg: Callable[..., bytes]
    ) -> None:
        (tmp_path / "src" / "cat").mkdir(parents=True)
        for number in range(3):
            data = make_jpeg(number)[: None if number else 200]
            (tmp_path / "src" / "cat" / f"{number}.jpg").write_bytes(data)
        with pytest.raises(SourceError, match="1 of 3 images and objects"):
            convert(tmp_path / "src", tmp_path / "out", allow_loss=0.1)
        convert(tmp_path / "src", tmp_path / "out")


@pytest.mark.parametrize("held", ["cat/1.jpg", "notes.txt"])
def test_a_target_full_of_other_files_is_refused(photos: Path, tmp_path: Path, held: str) -> None:
    (file := tmp_path / "out" / held).parent.mkdir(parents=True)
    file.write_text("x")
    with pytest.raises(DatasetError, match="the target holds other files, such as"):
        convert(photos, tmp_path / "out")
    with (
        pytest.raises(DatasetError, match="the target holds other files"),
        image_writer(tmp_path / "out") as w,
    ):
        w.write(np.zeros((4, 4, 3), np.uint8))
    (tmp_path / "some" / ".cache").mkdir(parents=True)
    convert(photos, tmp_path / "some/train")
    convert(photos, tmp_path / "some")  # a dataset in it is no other file
