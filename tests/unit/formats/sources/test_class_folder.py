"""Tests of the listing of a folder of classes, and of the files that are left out with their reasons."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from helpers.datasets import content, reasons

from stoker.errors import SourceError
from stoker.formats.sources.class_folder import list_folder, list_unlabelled
from stoker.formats.sources.file_list import list_named_images
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.source import Source, open_folder


def test_the_class_is_the_folder_that_holds_the_image(tree: Callable[..., Path]) -> None:
    listing = list_folder(Source(tree("dog/b.jpg", "animals/cat/a.jpg", "animals/z.jpg", "dog/a.jpg")))
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
    assert list_folder(Source(root, SourceOptions(class_depth=1))).classes == ("a", "b")
    assert list_folder(Source(root, SourceOptions(class_depth=2))).classes == ("a/x", "a/y", "b")


def test_content_decides_what_is_an_image(tree: Callable[..., Path]) -> None:
    root = tree("a/1.jpg", "a/no-suffix", "a/photo.txt")
    (root / "a/notes.txt").write_text("cats")
    (root / "a/annotation.xml").write_text("<cat/>")
    (root / "a/phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    (root / "a/camera.JXL").write_bytes(b"\xff\x0a")
    listing = list_folder(Source(root))
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
    listing = list_folder(Source(root))
    assert listing.classes == ("a",)
    assert reasons(listing) == {"docs/empty.jpg": "not an image", "docs/fake.png": "not an image"}


def test_an_image_outside_of_class_folders_is_left_out(tree: Callable[..., Path]) -> None:
    listing = list_folder(Source(tree("a/1.jpg", "stray.jpg")))
    assert reasons(listing) == {"stray.jpg": "not in a class folder"}


def test_hidden_files_and_folders_are_left_out(tree: Callable[..., Path]) -> None:
    listing = list_folder(Source(tree("a/1.jpg", "a/.2.jpg", ".git/objects/3.jpg")))
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
        list_folder(Source(root))


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
    listing = list_folder(Source(root))
    assert listing.classes == ("a", "b")
    assert [(skip.key[0], skip.reason) for skip in listing.missing_classes] == [("c", reason)]


def test_a_link_that_is_not_followed_is_a_missing_class(tree: Callable[..., Path], tmp_path: Path) -> None:
    root = tree("a/1.jpg", "b/2.jpg")
    (root / "b").rename(tmp_path / "b")
    (root / "b").symlink_to(tmp_path / "b")
    listing = list_folder(Source(root, SourceOptions(follow_links=False)))
    assert [skip[:2] for skip in listing.missing_classes] == [("b", "link")]
    assert list_folder(Source(root)).missing_classes == ()


def test_an_empty_folder_in_a_class_is_no_class(tree: Callable[..., Path]) -> None:
    root = tree("a/1.jpg", "a/x/1.jpg", "docs/2.jpg")
    (root / "a/y").mkdir()
    (root / "notes").mkdir()
    (root / "notes/read.me").write_text("text")
    assert [skip.key for skip in list_folder(Source(root)).missing_classes] == ["a/y"]
    assert list_folder(Source(root, SourceOptions(class_depth=1))).missing_classes == ()


class TestHostileFiles:
    """A listing never blocks, never loops, and reports the files that it leaves out."""

    def check(
        self,
        root: Path,
        expected: dict[str, str],
        kept: set[str] | None = None,
        *,
        follow_links: bool = True,
    ) -> None:
        listing = list_folder(Source(root, SourceOptions(follow_links=follow_links)))
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

    @pytest.mark.parametrize("target", ["{outside}/secret.jpg", "../../outside/secret.jpg", "chain.jpg"])
    def test_a_link_to_a_file_anywhere_is_followed(self, root: Path, outside: Path, target: str) -> None:
        (outside / "chain.jpg").symlink_to("secret.jpg")
        (root / "b").mkdir()
        (root / "b/chain.jpg").symlink_to(outside / "chain.jpg")
        (root / "b/2.jpg").symlink_to(target.format(outside=outside))
        self.check(root, {}, {"a/1.jpg", "b/2.jpg", "b/chain.jpg"})
        self.check(root, dict.fromkeys(["b/2.jpg", "b/chain.jpg"], "link"), follow_links=False)

    def test_a_link_to_a_folder_anywhere_is_followed(self, root: Path, outside: Path) -> None:
        (outside / "deeper").mkdir()
        (outside / "deeper/2.jpg").symlink_to("../secret.jpg")
        (root / "b").symlink_to(outside)
        self.check(root, {}, {"a/1.jpg", "b/secret.jpg", "b/deeper/2.jpg"})
        self.check(root, dict.fromkeys(["b/secret.jpg", "b/deeper"], "link"), follow_links=False)

    @pytest.mark.parametrize("target", ["..", ".", "../..", "/"])
    def test_a_link_to_a_folder_that_holds_it_does_not_loop(self, root: Path, target: str) -> None:
        (root / "a/loop").symlink_to(target)
        self.check(root, {"a/loop": "link to a folder that holds it"})

    def test_folders_that_link_to_each_other_do_not_loop(self, root: Path, outside: Path) -> None:
        (root / "b").symlink_to(outside)
        (outside / "back").symlink_to(root)
        (outside / "self").symlink_to(outside)
        expected = dict.fromkeys(["b/back", "b/self"], "link to a folder that holds it")
        self.check(root, expected, {"a/1.jpg", "b/secret.jpg"})

    def test_a_listing_of_countless_paths_of_links_ends(
        self, root: Path, tmp_path: Path, make_jpeg: Callable[..., bytes]
    ) -> None:
        folders = [tmp_path / f"f{i}" for i in range(7)]
        for folder in folders:
            folder.mkdir()
            (folder / "1.jpg").write_bytes(make_jpeg(1))
            for other in folders:
                (folder / other.name).symlink_to(other)
        (root / "b").symlink_to(folders[0])
        listing = list_folder(Source(root))
        assert "b/f1/f2/f3/1.jpg" in content(listing)
        assert "link behind too many links" in reasons(listing).values()

    @pytest.mark.parametrize(
        ("target", "reason"),
        [("2.jpg", "unreadable"), ("gone.jpg", "unreadable"), ("/dev/zero", "not a regular file")],
        ids=["itself", "nothing", "a device"],
    )
    def test_a_link_that_leads_to_no_file_is_left_out(self, root: Path, target: str, reason: str) -> None:
        (root / "a/2.jpg").symlink_to(target)
        self.check(root, {"a/2.jpg": reason})

    def test_a_fifo_does_not_block(self, root: Path) -> None:
        os.mkfifo(root / "a/2.jpg")
        os.mkfifo(root / "a/pipe")
        self.check(root, dict.fromkeys(["a/2.jpg", "a/pipe"], "not a regular file"))

    def test_a_socket_is_left_out(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(root / "a")  # the path of a socket has at most 107 bytes
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("2.jpg")
            self.check(root, {"a/2.jpg": "not a regular file"})

    def test_a_folder_that_cannot_be_read_is_left_out(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "b").mkdir()
        scandir = os.scandir

        def refuse(path: str) -> object:
            if path.endswith("/b"):
                raise PermissionError(13, "Permission denied", path)
            return scandir(path)

        # Permissions do not stop root, the user of tests in containers.
        monkeypatch.setattr(os, "scandir", refuse)
        self.check(root, {"b": "unreadable"})

    def test_an_image_five_hundred_folders_deep_is_listed(self, tree: Callable[..., Path]) -> None:
        deep = "/".join(["d"] * 500) + "/1.jpg"
        assert list_folder(Source(tree("a/1.jpg", deep))).keys.to_pylist() == ["a/1.jpg", deep]

    def test_the_root_itself_may_be_a_link(self, root: Path) -> None:
        link = root.with_name("link")
        link.symlink_to(root)
        assert list_folder(Source(link)).root == root


NAMES = [
    "new\nline",
    "tab\t",
    "quote\"'",
    "back\\slash",
    "..",
    "-rf",
    "$(reboot)",
    "%s%n",
    "nul\\0",
    "\x01\x1b[31m",
    "ümläut",
    "u\u0308mlaut",
    "日本語",
    "\u202egpj",
    "\U0001f408",
    "*?[a]",
    "x" * 250,
    b"\xff\xfe",
    b"caf\xe9",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_strange_name_is_a_key_unless_it_is_no_utf8(
    tree: Callable[..., Path], make_jpeg: Callable[..., bytes], name: str | bytes
) -> None:
    root = tree("a/1.jpg")
    raw = name.encode() if isinstance(name, str) else name
    file = (b"x" + raw if raw.startswith(b".") else raw) + b".jpg"
    (root / "a" / os.fsdecode(file)).write_bytes(make_jpeg(5))
    listing = list_folder(Source(root))
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
    (folder / "3.jpg").write_bytes(make_jpeg(6))
    listing = list_folder(Source(root))
    assert reasons(listing) == dict.fromkeys(["\\xff/2.jpg", "\\xff/3.jpg"], "name is not UTF-8")
    assert [skip.key for skip in listing.missing_classes] == ["\\xff"]


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
