"""Tests of the listing of a folder of classes, and of the files that are left out with their reasons."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import content, reasons

from stoker.errors import SourceError
from stoker.formats.sources.class_folder import list_folder
from stoker.formats.sources.listing import Listing
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.source import Source

Tree = Callable[..., Path]


def listed(root: Path, **options: Any) -> Listing:
    return list_folder(Source(root, SourceOptions(**options)))


def test_the_class_is_the_folder_that_holds_the_image_to_a_depth(tree: Tree) -> None:
    root = tree("dog/b.jpg", "animals/cat/a.jpg", "animals/z.jpg", "dog/a.jpg", "stray.jpg")
    listing = listed(root)
    assert listing.classes == ("animals", "animals/cat", "dog")
    assert content(listing) == {
        "animals/cat/a.jpg": "animals/cat",
        "animals/z.jpg": "animals",
        "dog/a.jpg": "dog",
        "dog/b.jpg": "dog",
    }
    assert listing.keys.to_pylist() == sorted(listing.keys.to_pylist())
    assert reasons(listing) == {"stray.jpg": "not in a class folder"}
    assert listed(root, class_depth=1).classes == ("animals", "dog")
    assert listed(root, class_depth=2).classes == listing.classes


def test_content_decides_what_is_an_image(tree: Tree) -> None:
    root = tree("a/1.jpg", "a/no-suffix", "a/photo.txt", "a/.2.jpg", ".git/objects/3.jpg")
    (root / "docs").mkdir()
    for name, data in {
        "a/notes.txt": b"cats",
        "a/phone.HEIC": b"\0\0\0\x18ftypheic",
        "a/camera.JXL": b"\xff\x0a",
        "docs/empty.jpg": b"",
        "docs/fake.png": b"no",
    }.items():
        (root / name).write_bytes(data)
    listing = listed(root)
    assert listing.classes == ("a",)
    assert set(content(listing)) == {"a/1.jpg", "a/no-suffix", "a/phone.HEIC", "a/photo.txt"}
    assert reasons(listing) == {
        "a/notes.txt": "not an image",
        "a/camera.JXL": "image of a format that is not read",
        "docs/empty.jpg": "not an image",
        "docs/fake.png": "not an image",
        "a/.2.jpg": "hidden",
        ".git": "hidden",
    }


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
        listed(root)


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
def test_a_class_without_an_image_is_missing(tree: Tree, make: Callable[[Path], object], reason: str) -> None:
    root = tree("a/1.jpg", "b/2.jpg")
    make(root / "c")
    listing = listed(root)
    assert listing.classes == ("a", "b")
    assert [(skip.key[0], skip.reason) for skip in listing.missing_classes] == [("c", reason)]


def test_only_a_folder_that_would_be_a_class_is_missing(tree: Tree, tmp_path: Path) -> None:
    root = tree("a/1.jpg", "a/x/1.jpg", "b/2.jpg")
    (root / "a/y").mkdir()
    (root / "notes").mkdir()
    (root / "notes/read.me").write_text("text")
    (root / "b").rename(tmp_path / "b")
    (root / "b").symlink_to(tmp_path / "b")
    assert [skip.key for skip in listed(root).missing_classes] == ["a/y"]
    assert listed(root, class_depth=1).missing_classes == ()
    missing = listed(root, class_depth=1, follow_links=False).missing_classes
    assert [skip[:2] for skip in missing] == [("b", "link")]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("1.JXL", b"text"),
        ("1.svg", b"<svg/>"),
        ("1.unknown", b"\x00\x01"),
        ("1.latin", b"caf\xe9"),
        ("1.npy", b"\x93NUMPY"),
        (os.fsdecode(b"\xff.jpg"), b""),
        ("x/1.tga", b"\x00"),
    ],
)
def test_a_class_whose_files_are_in_no_known_format_is_missing(tree: Tree, name: str, data: bytes) -> None:
    root = tree("a/1.jpg", "c/1.jpg")
    (root / "b" / name).parent.mkdir(parents=True)
    (root / "b" / name).write_bytes(data)
    for listing in (listed(root), listed(root, class_depth=1)):
        assert [skip.key[0] for skip in listing.missing_classes] == ["b"]
        assert "no file in it is an image" in listing.missing_classes[0].message


def test_a_folder_that_holds_classes_or_text_is_not_missing(tree: Tree) -> None:
    root = tree("b/x/1.jpg", "b/y/1.jpg")
    (root / "b/Thumbs.db").write_bytes(b"\0")
    (root / "notes").mkdir()
    (root / "notes/long.txt").write_text("é" + "€" * 2000)
    assert listed(root).missing_classes == ()


class TestHostileFiles:
    """A listing never blocks, never loops, and reports the files that it leaves out."""

    def check(self, root: Path, expected: dict[str, str], *kept: str, follow_links: bool = True) -> None:
        listing = listed(root, follow_links=follow_links)
        assert reasons(listing) == expected
        assert set(content(listing)) == {"a/1.jpg", *kept}

    @pytest.fixture
    def root(self, tree: Tree) -> Path:
        return tree("a/1.jpg")

    @pytest.fixture
    def outside(self, tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
        folder = tmp_path / "outside"
        folder.mkdir()
        (folder / "secret.jpg").write_bytes(make_jpeg(99))
        return folder

    def test_links_to_files_and_folders_anywhere_are_followed(self, root: Path, outside: Path) -> None:
        (outside / "chain.jpg").symlink_to("secret.jpg")
        (root / "b").symlink_to(outside)
        (root / "c").mkdir()
        (root / "c/1.jpg").symlink_to(outside / "chain.jpg")
        (root / "c/2.jpg").symlink_to("../../outside/secret.jpg")
        self.check(root, {}, "b/chain.jpg", "b/secret.jpg", "c/1.jpg", "c/2.jpg")
        links = ["b/chain.jpg", "b/secret.jpg", "c/1.jpg", "c/2.jpg"]
        self.check(root, dict.fromkeys(links, "link"), follow_links=False)
        assert listed(root.rename(root.with_name("moved"))).classes == ("a", "b", "c")
        (root.with_name("link")).symlink_to(root.with_name("moved"))
        assert listed(root.with_name("link")).root == root.with_name("moved")

    @pytest.mark.parametrize("target", ["..", ".", "../..", "/"])
    def test_a_link_to_a_folder_that_holds_it_does_not_loop(self, root: Path, target: str) -> None:
        (root / "a/loop").symlink_to(target)
        self.check(root, {"a/loop": "link to a folder that holds it"})

    def test_folders_that_link_to_each_other_do_not_loop(self, root: Path, outside: Path) -> None:
        (root / "b").symlink_to(outside)
        (outside / "back").symlink_to(root)
        (outside / "self").symlink_to(outside)
        self.check(
            root, dict.fromkeys(["b/back", "b/self"], "link to a folder that holds it"), "b/secret.jpg"
        )

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
        listing = listed(root)
        assert "b/f1/f2/f3/1.jpg" in content(listing)
        assert "link behind too many links" in reasons(listing).values()

    def test_what_is_no_file_is_left_out_and_does_not_block(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        targets = {"2.jpg": "2.jpg", "3.jpg": "gone.jpg", "4.jpg": "/dev/zero"}
        for name, target in targets.items():
            (root / "a" / name).symlink_to(target)
        os.mkfifo(root / "a/5.jpg")
        os.mkfifo(root / "a/pipe")
        monkeypatch.chdir(root / "a")  # the path of a socket has at most 107 bytes
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("6.jpg")
            others = dict.fromkeys(["a/4.jpg", "a/5.jpg", "a/pipe", "a/6.jpg"], "not a regular file")
            self.check(root, {"a/2.jpg": "unreadable", "a/3.jpg": "unreadable", **others})

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

    def test_an_image_five_hundred_folders_deep_is_listed(self, tree: Tree) -> None:
        deep = "/".join(["d"] * 500) + "/1.jpg"
        assert listed(tree("a/1.jpg", deep)).keys.to_pylist() == ["a/1.jpg", deep]


NAMES = [
    "new\nline", "tab\t", "quote\"'", "back\\slash", "..", "-rf", "$(reboot)", "%s%n", "nul\\0", "x" * 250,
    "\x01\x1b[31m", "ümläut", "u\u0308mlaut", "日本語", "\u202egpj", "\U0001f408", "*?[a]",
]  # fmt: skip


def test_strange_names_are_keys_unless_they_are_not_utf8(tree: Tree) -> None:
    names = ["a/1.jpg", *(f"a/x{name}.jpg" for name in NAMES)]
    root = tree(*names)
    for raw in (b"\xff\xfe", b"caf\xe9"):
        (root / "a" / os.fsdecode(raw + b".jpg")).write_bytes((root / "a/1.jpg").read_bytes())
    folder = root / os.fsdecode(b"\xff")
    folder.mkdir()
    (folder / "2.jpg").write_bytes((root / "a/1.jpg").read_bytes())
    listing = listed(root)
    assert set(listing.keys.to_pylist()) == set(names)
    left_out = ["\\xff/2.jpg", "a/\\xff\\xfe.jpg", "a/caf\\xe9.jpg"]
    assert reasons(listing) == dict.fromkeys(left_out, "name is not UTF-8")
    assert [skip.key for skip in listing.missing_classes] == ["\\xff"]


def test_the_error_counts_links_that_are_not_followed(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "folders").mkdir()
    (tmp_path / "folders" / ".hidden").touch()
    for name in ("cat", "dog"):
        (tmp_path / "folders" / name).symlink_to(photos / name)
    (tmp_path / "files" / "cat").mkdir(parents=True)
    for file in (photos / "cat").iterdir():
        (tmp_path / "files" / "cat" / file.name).symlink_to(file)
    for folder, unlabelled, counts in (
        ("folders", False, "20 x link, 1 x hidden"),
        ("files", False, "10 x link"),
        ("files", True, "10 x link"),
    ):
        with pytest.raises(SourceError, match=f"left out: {counts}") as caught:
            listed(tmp_path / folder, follow_links=False, unlabelled=unlabelled)
        assert "follow_links=False" in str(caught.value.hint)


def test_the_hint_names_the_form_for_other_folders(photos: Path) -> None:
    with pytest.raises(SourceError, match="left out: 10 x not in a class folder") as caught:
        listed(photos / "cat")
    assert "one folder for each class" in str(caught.value.hint)


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_the_hint_for_shards_in_a_folder_is_their_names(
    make_dataset: Callable[..., Path], tmp_path: Path, container: str
) -> None:
    (tmp_path / "shards").mkdir()
    for file in make_dataset(container).glob("shard-*"):
        if file.suffix != ".idx":
            file.rename(tmp_path / "shards" / f"train-{file.name}-of-other")
    with pytest.raises(SourceError) as caught:
        listed(tmp_path / "shards")
    assert "Name the shards themselves" in str(caught.value.hint)


def test_folders_that_systems_make_are_hidden(tree: Tree) -> None:
    root = tree("cat/1.jpg", "__MACOSX/cat/._1.jpg", "cat/@eaDir/1.jpg/SYNOPHOTO_THUMB.jpg")
    listing = listed(root)
    assert (listing.classes, listing.missing_classes) == (("cat",), ())
    assert set(content(listing)) == {"cat/1.jpg"}
