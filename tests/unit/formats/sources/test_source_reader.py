"""Reading files of a source that change between listing and reading."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.formats.sources.source_reader import SkippedError, looks_like_image, read_source_file


@pytest.fixture
def root(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(make_jpeg(1))
    return folder.resolve()


def refusal(root: Path, key: str, size: int) -> str:
    with pytest.raises(SkippedError) as caught:
        read_source_file(str(root), key, size)
    return str(caught.value.args[0])


def test_a_file_is_read_whole(root: Path) -> None:
    data = (root / "a.jpg").read_bytes()
    assert read_source_file(str(root), "a.jpg", len(data)) == data


def test_short_reads_are_continued(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (root / "a.jpg").read_bytes()
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: read(descriptor, min(size, 7)))
    assert read_source_file(str(root), "a.jpg", len(data)) == data


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_changed_size_is_noticed(root: Path, difference: int) -> None:
    size = (root / "a.jpg").stat().st_size + difference
    assert refusal(root, "a.jpg", size) == "changed since it was listed"


def test_a_file_that_became_shorter_while_it_was_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "read", lambda descriptor, size: b"")
    assert refusal(root, "a.jpg", (root / "a.jpg").stat().st_size) == "changed since it was listed"


def test_a_file_that_became_a_fifo_does_not_block(root: Path) -> None:
    os.mkfifo(root / "b.jpg")
    assert refusal(root, "b.jpg", 100) == "not a regular file"
    assert not looks_like_image(str(root), "b.jpg")


def test_a_file_that_became_a_link(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.jpg"
    data = (root / "a.jpg").read_bytes()
    (root / "a.jpg").rename(elsewhere)
    (root / "a.jpg").symlink_to(elsewhere)
    for key in ("a.jpg", str(root / "a.jpg")):
        assert read_source_file(str(root), key, len(data)) == data
        with pytest.raises(SkippedError, match="link"):
            read_source_file(str(root), key, len(data), follow_links=False)
        assert not looks_like_image(str(root), key, follow_links=False)


def test_a_folder_that_became_a_link(root: Path) -> None:
    (root / "b").symlink_to(root)
    data = (root / "a.jpg").read_bytes()
    assert read_source_file(str(root), "b/a.jpg", len(data)) == data
    with pytest.raises(SkippedError, match="link"):
        read_source_file(str(root), "b/a.jpg", len(data), follow_links=False)


def test_a_removed_file(root: Path) -> None:
    assert refusal(root, "gone.jpg", 10) == "unreadable"


def test_of_a_huge_file_only_the_start_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1 << 30, 1 << 40):
        with (root / "huge.jpg").open("wb") as file:
            file.truncate(size)  # sparse: it takes no room

        def never(*_: object) -> bytes:
            raise AssertionError("it was read")

        monkeypatch.setattr(os, "read", never)
        assert refusal(root, "huge.jpg", size) in ("not an image", "larger than 2 GiB")
