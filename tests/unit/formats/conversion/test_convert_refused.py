"""Converting: sources, targets and options that are refused, and the files at which ``strict`` stops."""

import os
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import WORDS, read_files
from helpers.options import convert_options

import stoker
from stoker.errors import ConfigError, DatasetError, DecodeError, SourceError, StaleIndexError
from stoker.formats.in_place import shards as external_index

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def test_a_dataset_is_not_replaced_without_overwrite(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "out", storage=stoker.ImageStorage(shards=3))
    before = read_files(tmp_path / "out")
    with pytest.raises(DatasetError, match="overwrite"):
        stoker.convert(photos, tmp_path / "out", storage=stoker.ImageStorage(shards=2))
    assert read_files(tmp_path / "out") == before


@pytest.mark.parametrize("name", ["shard-00000-of-00007.tfrecord", "index.arrow", "skipped.jsonl"])
def test_a_foreign_file_is_not_replaced_without_overwrite(photos: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "out" / "train" / name
    file.parent.mkdir(parents=True)
    file.write_text("of another program")
    with pytest.raises(DatasetError, match="would be replaced") as caught:
        stoker.convert(photos, tmp_path / "out", val=0.5)
    assert caught.value.path == str(file)
    assert file.read_text() == "of another program"
    stoker.convert(photos, tmp_path / "out", val=0.5, overwrite=True)


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_overwrite_replaces_the_dataset_and_no_other_file(
    photos: Path, tmp_path: Path, container: Any
) -> None:
    stoker.convert(photos, tmp_path / "out", container=container, storage=stoker.ImageStorage(shards=5))
    (tmp_path / "out/notes.txt").write_text("kept")
    stoker.convert(photos, tmp_path / "out", overwrite=True, storage=stoker.ImageStorage(shards=2))
    stoker.convert(photos, tmp_path / "fresh", storage=stoker.ImageStorage(shards=2))
    assert read_files(tmp_path / "out") == {**read_files(tmp_path / "fresh"), "notes.txt": b"kept"}


def test_overwrite_leaves_shards_that_were_only_indexed(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "source", storage=stoker.ImageStorage(shards=1))
    (tmp_path / "out").mkdir()
    shard = tmp_path / "out" / "external.tfrecord"
    before = (tmp_path / "source/shard-00000-of-00001.tfrecord").rename(shard).read_bytes()
    external_index.index([shard], tmp_path / "out")
    stoker.convert(photos, tmp_path / "out", seed=1, overwrite=True, storage=stoker.ImageStorage(shards=1))
    assert stoker.verify(tmp_path / "out").ok
    assert shard.read_bytes() == before


@pytest.mark.parametrize("kind", [None, "coco", "voc", "yolo", "list", "folder"])
def test_a_missing_source_is_refused(tmp_path: Path, kind: Any) -> None:
    with pytest.raises(SourceError, match="cannot be read: No such file") as caught:
        stoker.convert(
            tmp_path / "nowhere", tmp_path / "out", source_options=stoker.SourceOptions(source_format=kind)
        )
    assert caught.value.path == str(tmp_path / "nowhere")


def test_a_source_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(SourceError, match="the source cannot be read: Permission denied") as caught:
        stoker.convert(tmp_path, tmp_path / "out")
    assert caught.value.path == str(tmp_path)


def test_a_target_that_is_a_file_is_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("kept")
    with pytest.raises(ConfigError, match="the target is a file"):
        stoker.convert(photos, tmp_path / "out", overwrite=True)
    assert (tmp_path / "out").read_text() == "kept"


@pytest.mark.parametrize("target", ["photos", "photos/out", "photos/cat/../out", "link/out"])
def test_the_target_may_not_lie_in_the_source(photos: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(photos)
    with pytest.raises(ConfigError, match="lies in the source"):
        stoker.convert(photos, tmp_path / target)


def test_no_split_may_lie_in_the_source(photos: Path, tmp_path: Path) -> None:
    photos.rename(tmp_path / "train")
    with pytest.raises(ConfigError, match="lies in the source"):
        stoker.convert(tmp_path / "train", tmp_path, val="10%")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_threads": 0}, "num_threads must be at least 1"),
        ({"shard_size": "1MB", "shards": 2}, "shards are made by one of"),
        ({"val": 1.5}, "val must be a share"),
        ({"resize": "big"}, "resize must be"),
        ({"shards": 0}, "shards must be at least 1"),
    ],
    ids=str,
)
def test_invalid_options_are_refused(
    photos: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        stoker.convert(photos, tmp_path / "out", **convert_options(options))
    assert not (tmp_path / "out").exists()


def test_an_option_under_its_former_name_is_refused_with_the_new_one(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no option 'num_workers': it is now called 'num_threads'"):
        stoker.convert(photos, tmp_path / "out", num_workers=2)  # type: ignore[call-arg]  # the former name
    with pytest.raises(TypeError, match="it is now called 'num_threads'"):
        stoker.convert_text(photos / "x.txt", tmp_path / "out", num_workers=2, tokenizer=WORDS)  # type: ignore[call-arg]  # likewise


def test_class_depth_is_refused_for_a_list(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("path,label\nphotos/cat/1.jpg,a\n")
    with pytest.raises(ConfigError, match="class_depth"):
        stoker.convert(
            tmp_path / "list.csv", tmp_path / "out", source_options=stoker.SourceOptions(class_depth=1)
        )


@pytest.mark.parametrize("kind", ["folder", "list"])
def test_a_class_without_an_image_is_refused(photos: Path, tmp_path: Path, kind: str) -> None:
    if kind == "folder":
        (photos / "fox").mkdir()
    else:
        rows = "cat/0.jpg,cat\ndog/0.jpg,dog\nfox/gone.jpg,fox\n"
        (photos / "list.csv").write_text(f"path,label\n{rows}")
    source = photos if kind == "folder" else photos / "list.csv"
    with pytest.raises(SourceError, match="classes without an image: fox") as caught:
        stoker.convert(source, tmp_path / "out")
    assert "allow_missing_classes" in str(caught.value.hint)
    assert not (tmp_path / "out").exists()
    stoker.convert(source, tmp_path / "out", selection=stoker.Selection(allow_missing_classes=True))
    assert "fox" not in stoker.open(tmp_path / "out").classes


def test_a_source_of_links_gives_the_same_dataset(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    for folder in photos.iterdir():
        (tmp_path / "links" / folder.name).symlink_to(folder)
    stoker.convert(photos, tmp_path / "plain")
    stoker.convert(tmp_path / "links", tmp_path / "linked")
    assert stoker.open(tmp_path / "plain").fingerprint == stoker.open(tmp_path / "linked").fingerprint


def test_links_in_a_source_can_be_left_out(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "cat").symlink_to(photos / "cat")
    with pytest.raises(SourceError, match="no image in a class folder"):
        stoker.convert(
            tmp_path / "links", tmp_path / "out", source_options=stoker.SourceOptions(follow_links=False)
        )


@pytest.mark.parametrize("option", [{"quality": 80}, {"subsampling": "444"}])
def test_options_of_jpegs_are_refused_where_no_jpeg_is_encoded(
    photos: Path, tmp_path: Path, option: dict[str, Any]
) -> None:
    for encoding in ({}, {"encoding": "png"}, {"encoding": "raw", "resize": "squash=8x8"}):
        with pytest.raises(ConfigError, match="is for JPEGs that are encoded"):
            stoker.convert(photos, tmp_path / "out", **convert_options({**option, **encoding}))
    assert not (tmp_path / "out").exists()
    stoker.convert(photos, tmp_path / "resized", resize="shorter=8", **convert_options(option))
    stoker.convert(photos, tmp_path / "jpeg", encoding="jpeg", **convert_options(option))


class TestStrict:
    def test_strict_stops_and_names_the_file(self, photos: Path, tmp_path: Path) -> None:
        (photos / "dog/3.jpg").write_bytes((photos / "dog/3.jpg").read_bytes()[:-2])
        with pytest.raises(DecodeError, match="strict") as caught:
            stoker.convert(photos, tmp_path / "out", strict=True)
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
            stoker.convert(photos, tmp_path / "out", strict=True)
        assert caught.value.key == name

    @pytest.mark.parametrize("name", [".DS_Store", "._0.jpg", ".git/x.jpg", "Thumbs.db", "notes.txt"])
    def test_strict_skips_files_that_are_no_images(self, photos: Path, tmp_path: Path, name: str) -> None:
        for path in (photos / name, photos / "dog" / name):
            path.parent.mkdir(exist_ok=True)
            path.write_text("x")
        summary = stoker.convert(photos, tmp_path / "out", strict=True)
        reason = "hidden" if name.startswith(".") else "not an image"
        assert (summary.written, summary.skipped) == (30, {reason: 2})

    def test_strict_names_the_file_by_its_path_in_the_list(self, photos: Path, tmp_path: Path) -> None:
        broken = photos / "cat" / "1.jpg"
        broken.write_bytes(broken.read_bytes()[:100])
        for path in (broken, broken.relative_to(tmp_path)):
            (tmp_path / "list.csv").write_text(f"path,label\n{path},a\n")
            with pytest.raises(DecodeError) as caught:
                stoker.convert(tmp_path / "list.csv", tmp_path / "out", strict=True)
            assert caught.value.path == str(broken)


def test_a_source_without_an_intact_image_is_refused(photos: Path, tmp_path: Path) -> None:
    for file in photos.glob("*/*.jpg"):
        file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(SourceError, match="broken image"):
        stoker.convert(photos, tmp_path / "out")
    assert read_files(tmp_path / "out") == {}


def test_a_target_whose_path_is_not_utf8_is_refused(photos: Path, tmp_path: Path) -> None:
    target = tmp_path / os.fsdecode(b"out\xff")
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        stoker.convert(photos, target)
    assert str(caught.value.path).endswith("out\\xff")
    assert not target.exists()


def test_a_dataset_whose_path_is_not_utf8_can_neither_be_indexed_nor_opened(
    photos: Path, tmp_path: Path
) -> None:
    target = tmp_path / os.fsdecode(b"out\xff")
    stoker.convert(photos, tmp_path / "out")
    shard = stoker.open(tmp_path / "out").data_files[0]
    with pytest.raises(ConfigError, match="not UTF-8"):
        external_index.index([shard], target)
    (tmp_path / "out").rename(target)
    with pytest.raises(StaleIndexError, match="cannot be read"):
        stoker.open(target)
