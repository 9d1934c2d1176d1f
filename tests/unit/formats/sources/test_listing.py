"""Tests of the error about a source without a usable image, and of its hint."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from stoker.errors import SourceError
from stoker.formats.sources.class_folder import list_folder, list_unlabelled
from stoker.formats.sources.file_list import list_named_images
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.source import Source, open_folder


def test_links_to_class_folders_that_are_not_followed_are_counted(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "links" / name).symlink_to(photos / name)
    (tmp_path / "links" / ".hidden").touch()
    with pytest.raises(SourceError, match="left out: 20 x link, 1 x hidden") as caught:
        list_folder(Source(tmp_path / "links", SourceOptions(follow_links=False)))
    assert "follow_links=False" in str(caught.value.hint)


def test_links_to_images_that_are_not_followed_are_counted(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "links" / "cat").mkdir(parents=True)
    for file in (photos / "cat").iterdir():
        (tmp_path / "links" / "cat" / file.name).symlink_to(file)
    folder = open_folder(tmp_path / "links", follow_links=False)
    for list_links in (
        partial(list_folder, Source(folder.root, SourceOptions(follow_links=False))),
        partial(list_unlabelled, Source(folder.root, SourceOptions(follow_links=False))),
    ):
        with pytest.raises(SourceError, match="left out: 10 x link") as caught:
            list_links()
        assert "follow_links=False" in str(caught.value.hint)


def test_the_hint_for_images_without_a_class_is_a_folder_for_each(photos: Path) -> None:
    with pytest.raises(SourceError, match="left out: 10 x not in a class folder") as caught:
        list_folder(Source(photos / "cat"))
    assert "one folder for each class" in str(caught.value.hint)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        list_folder(Source(tmp_path))
    assert caught.value.message == "the folder holds no image in a class folder"


def test_the_hint_for_paths_that_leave_the_source_is_absolute_paths(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    file = tmp_path / "lists" / "list.csv"
    file.write_text("path,label\n../photos/cat/0.jpg,cat\n../photos/cat/1.jpg,cat\n")
    with pytest.raises(SourceError, match="left out: 2 x path that leaves the source") as caught:
        list_named_images(Source(file))
    assert "write absolute ones" in str(caught.value.hint)


def test_the_hint_for_urls_in_a_list_on_a_disk_is_a_list_at_a_url(tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text("path,label\nhttps://example.org/0.jpg,cat\n")
    with pytest.raises(SourceError, match="left out: 1 x URL in a list on a disk") as caught:
        list_named_images(Source(file))
    assert "put it there" in str(caught.value.hint)


def test_the_hint_for_a_dataset_as_a_source_says_so(make_dataset: Callable[..., Path]) -> None:
    with pytest.raises(SourceError, match="no image in a class folder") as caught:
        list_folder(Source(make_dataset()))
    assert "a dataset already" in str(caught.value.hint)


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_the_hint_for_shards_as_a_source_is_stoker_index(
    make_dataset: Callable[..., Path], tmp_path: Path, container: str
) -> None:
    (tmp_path / "shards").mkdir()
    for file in make_dataset(container).glob("shard-*"):
        if file.suffix != ".idx":
            file.rename(tmp_path / "shards" / f"train-{file.name}-of-other")
    with pytest.raises(SourceError) as caught:
        list_folder(Source(tmp_path / "shards"))
    assert "stoker index" in str(caught.value.hint)
    if container == "tfrecord":
        with pytest.raises(SourceError, match="a shard of another program") as caught:
            list_named_images(Source(next((tmp_path / "shards").iterdir())))
        assert "stoker index" in str(caught.value.hint)
