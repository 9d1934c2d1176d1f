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


@pytest.mark.parametrize("size", [1 << 30, 1 << 40])
def test_a_huge_file_is_refused_before_it_is_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    with (root / "huge.jpg").open("wb") as file:
        file.truncate(size)  # sparse: it takes no space on the disk
    monkeypatch.setattr(source_reader, "read_at", Mock(side_effect=AssertionError("it was read")))
    assert refusal(root, "huge.jpg", size) in ("not an image", "larger than 2 GiB")


def test_a_file_that_changed_is_refused_with_the_reason(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = (root / "a.jpg").stat().st_size
    os.mkfifo(root / "b.jpg")
    assert (
        refusal(root, "a.jpg", size - 1) == refusal(root, "a.jpg", size + 1) == "changed since it was listed"
    )
    assert refusal(root, "b.jpg", 100) == "not a regular file"
    assert not looks_like_image(str(root), "b.jpg")
    assert refusal(root, "gone.jpg", 10) == "unreadable"
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    assert refusal(root, "a.jpg", size) == "changed since it was listed"


def test_a_file_or_folder_that_became_a_link_is_read_unless_links_are_refused(
    root: Path, tmp_path: Path
) -> None:
    data = (root / "a.jpg").read_bytes()
    (root / "a.jpg").rename(tmp_path / "elsewhere.jpg")
    (root / "a.jpg").symlink_to(tmp_path / "elsewhere.jpg")
    (root / "b").symlink_to(tmp_path)
    for key in ("a.jpg", str(root / "a.jpg"), "b/elsewhere.jpg"):
        assert read_source_file(str(root), key, len(data)) == data
        with pytest.raises(SkippedError, match="link"):
            read_source_file(str(root), key, len(data), follow_links=False)
        assert not looks_like_image(str(root), key, follow_links=False)
