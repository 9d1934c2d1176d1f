"""Tests of reading files of a source that have changed since they were listed."""

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from stoker.formats.sources import source_reader
from stoker.formats.sources.source_reader import SkippedError, looks_like_image, read_source_file


@pytest.fixture
def root(tree: Callable[..., Path]) -> Path:
    """A folder with the image a.jpg."""
    return tree("a.jpg").resolve()


def refusal(root: Path, key: str, size: int) -> str:
    with pytest.raises(SkippedError) as caught:
        read_source_file(str(root), key, size)
    return str(caught.value.args[0])


def test_short_reads_are_continued(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (root / "a.jpg").read_bytes()
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: read(descriptor, min(size, 7), at))
    assert read_source_file(str(root), "a.jpg", len(data)) == data


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_changed_size_is_noticed(root: Path, difference: int) -> None:
    size = (root / "a.jpg").stat().st_size + difference
    assert refusal(root, "a.jpg", size) == "changed since it was listed"


def test_a_file_that_becomes_shorter_while_it_is_read_is_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    assert refusal(root, "a.jpg", (root / "a.jpg").stat().st_size) == "changed since it was listed"


def test_a_file_that_became_a_fifo_does_not_block(root: Path) -> None:
    os.mkfifo(root / "b.jpg")
    assert refusal(root, "b.jpg", 100) == "not a regular file"
    assert not looks_like_image(str(root), "b.jpg")


def test_a_file_that_became_a_link_is_read_unless_links_are_refused(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.jpg"
    data = (root / "a.jpg").read_bytes()
    (root / "a.jpg").rename(elsewhere)
    (root / "a.jpg").symlink_to(elsewhere)
    for key in ("a.jpg", str(root / "a.jpg")):
        assert read_source_file(str(root), key, len(data)) == data
        with pytest.raises(SkippedError, match="link"):
            read_source_file(str(root), key, len(data), follow_links=False)
        assert not looks_like_image(str(root), key, follow_links=False)


def test_a_folder_that_became_a_link_is_read_unless_links_are_refused(root: Path) -> None:
    (root / "b").symlink_to(root)
    data = (root / "a.jpg").read_bytes()
    assert read_source_file(str(root), "b/a.jpg", len(data)) == data
    with pytest.raises(SkippedError, match="link"):
        read_source_file(str(root), "b/a.jpg", len(data), follow_links=False)


def test_a_removed_file_is_left_out_as_unreadable(root: Path) -> None:
    assert refusal(root, "gone.jpg", 10) == "unreadable"


@pytest.mark.parametrize("size", [1 << 30, 1 << 40])
def test_a_huge_file_is_refused_before_it_is_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    with (root / "huge.jpg").open("wb") as file:
        file.truncate(size)  # sparse: it takes no space on the disk
    monkeypatch.setattr(source_reader, "read_at", Mock(side_effect=AssertionError("it was read")))
    assert refusal(root, "huge.jpg", size) in ("not an image", "larger than 2 GiB")
