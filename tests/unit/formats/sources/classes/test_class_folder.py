"""Tests of the listing of a folder of classes, and of the files that are left out with their reasons."""

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.data.listings import content, reasons

from stoker.errors import SourceError
from stoker.formats.sources.classes.class_folder import list_folder


def test_the_class_is_the_folder_that_holds_the_image(tree: Callable[..., Path]) -> None:
    listing = list_folder(tree("dog/b.jpg", "animals/cat/a.jpg", "animals/z.jpg", "dog/a.jpg"))
    assert listing.classes == ("animals", "animals/cat", "dog")
    assert content(listing) == {
        "animals/cat/a.jpg": "animals/cat",
        "animals/z.jpg": "animals",
        "dog/a.jpg": "dog",
        "dog/b.jpg": "dog",
    }
    assert listing.keys.to_pylist() == sorted(listing.keys.to_pylist())


def test_class_depth_makes_a_class_of_that_many_folders(tree: Callable[..., Path]) -> None:
    root = tree("a/x/1.jpg", "a/y/2.jpg", "b/3.jpg")
    assert list_folder(root, class_depth=1).classes == ("a", "b")
    assert list_folder(root, class_depth=2).classes == ("a/x", "a/y", "b")


def test_sizes_and_times_are_those_of_the_files(tree: Callable[..., Path]) -> None:
    root = tree("a/1.jpg", "a/2.jpg")
    listing = list_folder(root)
    stats = [(root / key).stat() for key in listing.keys.to_pylist()]
    assert listing.sizes.tolist() == [s.st_size for s in stats]
    assert listing.modified.tolist() == [s.st_mtime_ns for s in stats]


def test_content_decides_what_is_an_image(tree: Callable[..., Path]) -> None:
    root = tree("a/1.jpg", "a/no-suffix", "a/photo.txt")
    (root / "a/notes.txt").write_text("cats")
    (root / "a/annotation.xml").write_text("<cat/>")
    (root / "a/phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    (root / "a/camera.JXL").write_bytes(b"\xff\x0a")
    listing = list_folder(root)
    assert set(content(listing)) == {"a/1.jpg", "a/no-suffix", "a/phone.HEIC", "a/photo.txt"}
    assert reasons(listing) == {
        "a/notes.txt": "not an image",
        "a/annotation.xml": "not an image",
        "a/camera.JXL": "image of a format that is not read",
    }


def test_a_folder_without_images_is_no_class(tree: Callable[..., Path]) -> None:
    root = tree("a/1.jpg")
    (root / "docs").mkdir()
    (root / "docs/empty.jpg").touch()
    (root / "docs/fake.png").write_text("no")
    listing = list_folder(root)
    assert listing.classes == ("a",)
    assert reasons(listing) == {"docs/empty.jpg": "not an image", "docs/fake.png": "not an image"}


def test_an_image_outside_of_class_folders_is_left_out(tree: Callable[..., Path]) -> None:
    listing = list_folder(tree("a/1.jpg", "stray.jpg"))
    assert reasons(listing) == {"stray.jpg": "not in a class folder"}


def test_hidden_files_and_folders_are_left_out(tree: Callable[..., Path]) -> None:
    listing = list_folder(tree("a/1.jpg", "a/.2.jpg", ".git/objects/3.jpg"))
    assert reasons(listing) == {"a/.2.jpg": "hidden", ".git": "hidden"}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "the folder cannot be read: No such file"),
        ("file", "the folder cannot be read: Not a directory"),
        ("empty", "no image in a class folder; left out: 1 x empty folder"),
        ("text only", "no image in a class folder; left out: 1 x not an image"),
    ],
)
def test_a_source_without_images_is_refused(tmp_path: Path, kind: str, message: str) -> None:
    root = tmp_path / "source"
    if kind == "file":
        root.write_text("x")
    elif kind != "missing":
        (root / "a").mkdir(parents=True)
    if kind == "text only":
        (root / "a/readme.jpg").write_text("x")
    with pytest.raises(SourceError, match=message):
        list_folder(root)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: folder.mkdir(), "empty folder"),
        (lambda folder: (folder / ".hidden").mkdir(parents=True), "empty folder"),
        (lambda folder: folder.symlink_to("gone"), "unreadable"),
        (lambda folder: (folder / "x").mkdir(parents=True), "empty folder"),
        (lambda folder: (folder.mkdir(), (folder / "1.jpg").touch()), "no file in it is an image"),
    ],
    ids=["empty", "hidden files only", "dangling link", "empty folder in it", "files of Git LFS"],
)
def test_a_class_without_an_image_is_missing(
    tree: Callable[..., Path], make: Callable[[Path], object], reason: str
) -> None:
    root = tree("a/1.jpg", "b/2.jpg")
    make(root / "c")
    listing = list_folder(root)
    assert listing.classes == ("a", "b")
    assert [(skip.key[0], skip.reason) for skip in listing.missing_classes] == [("c", reason)]


def test_a_link_that_is_not_followed_is_a_missing_class(tree: Callable[..., Path], tmp_path: Path) -> None:
    root = tree("a/1.jpg", "b/2.jpg")
    (root / "b").rename(tmp_path / "b")
    (root / "b").symlink_to(tmp_path / "b")
    listing = list_folder(root, follow_links=False)
    assert [skip[:2] for skip in listing.missing_classes] == [("b", "link")]
    assert list_folder(root).missing_classes == ()


def test_an_empty_folder_in_a_class_is_no_class(tree: Callable[..., Path]) -> None:
    root = tree("a/1.jpg", "a/x/1.jpg", "docs/2.jpg")
    (root / "a/y").mkdir()
    (root / "notes").mkdir()
    (root / "notes/read.me").write_text("text")
    assert [skip.key for skip in list_folder(root).missing_classes] == ["a/y"]
    assert list_folder(root, class_depth=1).missing_classes == ()
