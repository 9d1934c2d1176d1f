"""Listing a folder of classes: the classes, and the files that are skipped with their reasons."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.errors import SourceError
from stoker.formats.sources.class_folder import list_folder
from stoker.formats.sources.listing import Listing


@pytest.fixture
def tree(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Callable[..., Path]:
    """``tree("cat/a.jpg", ...)`` makes a folder with a small JPEG at each path."""

    def make(*paths: str) -> Path:
        root = tmp_path / "source"
        root.mkdir(exist_ok=True)
        for i, path in enumerate(paths):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(make_jpeg(i))
        return root

    return make


def content(listing: Listing) -> dict[str, str]:
    """Class by key."""
    labels = listing.labels.to_pylist()
    return {key: listing.classes[label] for key, label in zip(listing.keys.to_pylist(), labels, strict=True)}


def reasons(listing: Listing) -> dict[str, str]:
    return {skip.key: skip.reason for skip in listing.skipped}


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


def test_class_depth_takes_the_leading_folders(tree: Callable[..., Path]) -> None:
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
    listing = list_folder(root)
    assert set(content(listing)) == {"a/1.jpg", "a/no-suffix", "a/photo.txt"}
    assert reasons(listing) == {
        "a/notes.txt": "not an image",
        "a/annotation.xml": "not an image",
        "a/phone.HEIC": "image of a format that is not read",
    }


def test_a_folder_without_images_is_no_class(tree: Callable[..., Path]) -> None:
    root = tree("a/1.jpg")
    (root / "docs").mkdir()
    (root / "docs/empty.jpg").touch()
    (root / "docs/fake.png").write_text("no")
    listing = list_folder(root)
    assert listing.classes == ("a",)
    assert reasons(listing) == {"docs/empty.jpg": "not an image", "docs/fake.png": "not an image"}


def test_images_outside_of_class_folders_are_skipped(tree: Callable[..., Path]) -> None:
    listing = list_folder(tree("a/1.jpg", "stray.jpg"))
    assert reasons(listing) == {"stray.jpg": "not in a class folder"}


def test_hidden_files_and_folders_are_skipped(tree: Callable[..., Path]) -> None:
    listing = list_folder(tree("a/1.jpg", "a/.2.jpg", ".git/objects/3.jpg"))
    assert reasons(listing) == {"a/.2.jpg": "hidden", ".git": "hidden"}


@pytest.mark.parametrize("kind", ["missing", "file", "empty", "text only"])
def test_the_error_for_a_source_without_images(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "source"
    if kind == "file":
        root.write_text("x")
    elif kind != "missing":
        (root / "a").mkdir(parents=True)
    if kind == "text only":
        (root / "a/readme.jpg").write_text("x")
    with pytest.raises(SourceError, match="source"):
        list_folder(root)


class TestHostileTrees:
    """The walk never leaves the root, never blocks, never loops, and reports the files that it skips."""

    def check(self, root: Path, expected: dict[str, str], kept: set[str] | None = None) -> None:
        listing = list_folder(root)
        assert reasons(listing) == expected
        assert set(content(listing)) == ({"a/1.jpg"} if kept is None else kept)

    @pytest.fixture
    def root(self, tree: Callable[..., Path]) -> Path:
        return tree("a/1.jpg")

    @pytest.fixture
    def outside(self, tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
        folder = tmp_path / "outside"
        folder.mkdir()
        (folder / "secret.jpg").write_bytes(make_jpeg(99))
        return folder

    def test_link_to_a_file_outside(self, root: Path, outside: Path) -> None:
        (root / "a/2.jpg").symlink_to(outside / "secret.jpg")
        self.check(root, {"a/2.jpg": "link that leaves the source"})

    def test_relative_link_to_a_file_outside(self, root: Path, outside: Path) -> None:
        (root / "a/2.jpg").symlink_to("../../outside/secret.jpg")
        self.check(root, {"a/2.jpg": "link that leaves the source"})

    def test_link_to_a_folder_outside(self, root: Path, outside: Path) -> None:
        (root / "b").symlink_to(outside)
        self.check(root, {"b": "link that leaves the source"})

    def test_link_to_a_sibling_whose_name_continues_the_roots(self, root: Path, outside: Path) -> None:
        sibling = outside.rename(root.with_name("source-2"))
        (root / "a/2.jpg").symlink_to(sibling / "secret.jpg")
        self.check(root, {"a/2.jpg": "link that leaves the source"})

    def test_chain_of_links_that_ends_outside(self, root: Path, outside: Path) -> None:
        (root / "a/3.jpg").symlink_to(outside / "secret.jpg")
        (root / "a/2.jpg").symlink_to("3.jpg")
        self.check(root, dict.fromkeys(["a/2.jpg", "a/3.jpg"], "link that leaves the source"))

    def test_link_to_a_file_inside_is_followed(self, root: Path) -> None:
        (root / "b").mkdir()
        (root / "b/2.jpg").symlink_to("../a/1.jpg")
        self.check(root, {}, {"a/1.jpg", "b/2.jpg"})

    def test_link_to_the_folder_above_does_not_loop(self, root: Path) -> None:
        (root / "a/loop").symlink_to("..")
        self.check(root, {"a/loop": "link that leaves the source"})

    def test_link_to_its_own_folder_does_not_loop(self, root: Path) -> None:
        (root / "a/loop").symlink_to(".")
        self.check(root, {"a/loop": "link to a folder"})

    def test_links_to_each_other(self, root: Path) -> None:
        (root / "a/2.jpg").symlink_to("3.jpg")
        (root / "a/3.jpg").symlink_to("2.jpg")
        self.check(root, dict.fromkeys(["a/2.jpg", "a/3.jpg"], "unreadable"))

    def test_dangling_link(self, root: Path) -> None:
        (root / "a/2.jpg").symlink_to("gone.jpg")
        self.check(root, {"a/2.jpg": "unreadable"})

    def test_fifo_does_not_block(self, root: Path) -> None:
        os.mkfifo(root / "a/2.jpg")
        os.mkfifo(root / "a/pipe")
        self.check(root, dict.fromkeys(["a/2.jpg", "a/pipe"], "not a regular file"))

    def test_link_to_a_device(self, root: Path) -> None:
        (root / "a/2.jpg").symlink_to("/dev/zero")
        self.check(root, {"a/2.jpg": "link that leaves the source"})

    def test_socket(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(root / "a")  # the path of a socket has at most 107 bytes
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("2.jpg")
            self.check(root, {"a/2.jpg": "not a regular file"})

    def test_unreadable_folder(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "b").mkdir()
        scandir = os.scandir

        def refuse(path: str) -> object:
            if path.endswith("/b"):
                raise PermissionError(13, "Permission denied", path)
            return scandir(path)

        # Permissions do not stop root, who runs tests in containers.
        monkeypatch.setattr(os, "scandir", refuse)
        self.check(root, {"b": "unreadable"})

    def test_five_hundred_folders_deep(self, tree: Callable[..., Path]) -> None:
        deep = "/".join(["d"] * 500) + "/1.jpg"
        assert list_folder(tree("a/1.jpg", deep)).keys.to_pylist() == ["a/1.jpg", deep]

    def test_the_root_itself_may_be_a_link(self, root: Path) -> None:
        link = root.with_name("link")
        link.symlink_to(root)
        assert list_folder(link).root == root


NAMES = [
    "new\nline",
    "tab\t",
    "carriage\rreturn",
    "quote\"'",
    "back\\slash",
    "..",
    "...",
    "-rf",
    "~",
    "$(reboot)",
    "`reboot`",
    "%s%n",
    "nul\\0",
    "\x01\x1b[31m",
    "\x7f",
    "ümläut",
    "u\u0308mlaut",
    "日本語",
    "\u202egpj",
    "\U0001f408",
    "*?[a]",
    "a b ",
    "x" * 250,
    b"\xff\xfe",
    b"caf\xe9",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_hostile_names(tree: Callable[..., Path], make_jpeg: Callable[..., bytes], name: str | bytes) -> None:
    root = tree("a/1.jpg")
    raw = name.encode() if isinstance(name, str) else name
    file = (b"x" + raw if raw.startswith(b".") else raw) + b".jpg"
    (root / "a" / os.fsdecode(file)).write_bytes(make_jpeg(5))
    listing = list_folder(root)
    if isinstance(name, str):
        assert set(listing.keys.to_pylist()) == {"a/1.jpg", f"a/{file.decode()}"}
        assert listing.skipped == ()
    else:
        assert listing.keys.to_pylist() == ["a/1.jpg"]
        (skip,) = listing.skipped
        assert skip.reason == "name is not UTF-8"
        assert skip.key.isascii()


def test_a_folder_whose_name_is_not_utf8_is_not_entered(
    tree: Callable[..., Path], make_jpeg: Callable[..., bytes]
) -> None:
    root = tree("a/1.jpg")
    folder = root / os.fsdecode(b"\xff")
    folder.mkdir()
    (folder / "2.jpg").write_bytes(make_jpeg(5))
    assert reasons(list_folder(root)) == {"\\xff": "name is not UTF-8"}
