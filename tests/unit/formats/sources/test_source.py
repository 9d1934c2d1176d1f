"""Tests of sources at URLs, which give the records of the same sources on a disk, and of web servers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import converted
from helpers.options import convert_options
from PIL import Image

import stoker
from stoker.errors import SourceError, StorageError
from stoker.formats.remote.store import Store, crawl
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.registry import find_format
from stoker.formats.sources.source import Source, open_folder, split_at_folder

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


class FolderPages(SimpleHTTPRequestHandler):
    """Answers with pages of links to the files of a folder, as common web servers do; logs nothing."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path, short_pauses: None) -> Iterator[str]:
    """URL of a web server that shows ``tmp_path``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(FolderPages, directory=str(tmp_path)))
    server.daemon_threads = True
    server.socket.listen(128)  # with 5, further simultaneous connections wait for seconds
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def sources(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    """A folder with a source of each format; each source has missing and broken files."""
    root = tmp_path / "sources"
    texts = {
        "voc/ImageSets/Main/train.txt": "a\nc\nnowhere\n",
        "voc/Annotations/broken.xml": "<annotation>",
        "yolo/data.yaml": "names: [one, two]\n",
        "yolo/labels/train/stray.txt": "0 0.5 0.5 0.1 0.1\n",
        "pairs/masks/classes.txt": "sky\nsea\n",
        "classes/x/notes.txt": "no image",
    }
    folders = ("voc/JPEGImages", "yolo/images/train", "pairs/images/p q", "classes/x", "classes/y")
    for folder in folders:
        for i, name in enumerate("abc"):
            path = root / folder / f"{name}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(make_jpeg(i))
    for i, name in enumerate("ab"):
        box = f"<xmin>{1 + i}</xmin><ymin>2</ymin><xmax>9</xmax><ymax>9</ymax>"
        thing = f"<object><name>{'ox' * (i + 1)}</name><bndbox>{box}</bndbox></object>"
        named = f"<filename>{name}.jpg</filename>"
        texts[f"voc/Annotations/{name}.xml"] = f"<annotation>{named}{thing}</annotation>"
        texts[f"yolo/labels/train/{name}.txt"] = f"{i} 0.5 0.5 0.25 0.5\n7 0 0 1 1\n"
        mask = Image.fromarray(np.full((12, 16), i, np.uint8))
        path = root / "pairs" / "masks" / "p q" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        mask.save(path)
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def urls(sources: Path, memory: Any, web: str) -> dict[str, str]:
    """URL of the folder of sources, by storage."""
    memory.put(str(sources), "/bucket/sources", recursive=True)
    return {"memory": "memory://bucket/sources", "web": f"{web}/sources"}


FORMATS = {
    "voc": ("voc", None),
    "voc/ImageSets/Main/train.txt": ("voc", None),
    "yolo": ("yolo", None),
    "yolo/images/train": ("yolo", None),
    "pairs/images": ("pairs", "pairs/masks"),
    "classes": ("folder", None),
}


@pytest.mark.parametrize("storage", ["memory", "web"])
@pytest.mark.parametrize("name", FORMATS)
def test_urls_give_the_records_of_a_disk(
    sources: Path, urls: dict[str, str], tmp_path: Path, name: str, storage: str
) -> None:
    expected, masks = FORMATS[name]
    summaries = []
    for side, root in (("here", str(sources)), ("there", urls[storage])):
        given = {} if masks is None else {"masks": f"{root}/{masks}"}
        assert find_format(Source(f"{root}/{name}", SourceOptions(**given))).name == expected
        summaries.append(
            stoker.convert(
                f"{root}/{name}",
                tmp_path / side,
                seed=1,
                **convert_options({"shards": 2, "allow_loss": 1, **given}),
            )
        )
    assert summaries[0].written == summaries[1].written > 0
    assert summaries[0].skipped == summaries[1].skipped
    here, there = (stoker.open(tmp_path / side) for side in ("here", "there"))
    assert there.manifest.shards == here.manifest.shards
    assert (there.classes, there.types, there.manifest.annotations) == (
        here.classes,
        here.types,
        here.manifest.annotations,
    )
    lists = [(tmp_path / side / "skipped.jsonl").read_text() for side in ("here", "there")]
    assert lists[0] == lists[1]
    assert stoker.verify(there.path).ok


@pytest.mark.parametrize("name", ["voc", "yolo", "yolo/images/train"])
def test_a_conversion_lists_each_folder_of_a_url_once(
    urls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    original, listed = Store.files, []

    def files(self: Store, names: Any = None) -> Any:
        listed.append((self.url, names is None))
        return original(self, names)

    # The storage in memory also lists a folder to look up named files, so its calls show no difference.
    monkeypatch.setattr(Store, "files", files)
    converted(f"{urls['memory']}/{name}", tmp_path / "out", allow_loss=1)
    assert listed
    assert len(set(listed)) == len(listed)


def test_images_at_a_url_may_have_masks_on_a_disk(
    sources: Path, urls: dict[str, str], tmp_path: Path
) -> None:
    images = f"{urls['memory']}/pairs/images"
    dataset = converted(images, tmp_path / "out", allow_loss=1, masks=sources / "pairs" / "masks")
    assert (len(dataset), dataset.manifest.annotations.mask_classes) == (2, ("sky", "sea"))


def test_annotations_that_cannot_be_fetched_are_not_missing(
    urls: dict[str, str], tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = type(memory).cat_file

    def cat_file(self: Any, path: str, **options: Any) -> bytes:
        if path.endswith("b.txt"):
            raise PermissionError("not yours")
        return original(self, path, **options)

    monkeypatch.setattr(type(memory), "cat_file", cat_file)
    with pytest.raises(StorageError, match="not yours") as caught:
        stoker.convert(f"{urls['memory']}/yolo", tmp_path / "out")
    assert caught.value.path == f"{urls['memory']}/yolo/labels/train/b.txt"


@pytest.mark.parametrize("kind", ["voc", "yolo", "pairs"])
def test_the_error_about_a_missing_source_names_its_url(
    urls: dict[str, str], tmp_path: Path, kind: Any
) -> None:
    masks = {"masks": tmp_path} if kind == "pairs" else {}
    for root in urls.values():
        with pytest.raises((SourceError, StorageError)) as caught:
            stoker.convert(
                f"{root}/nowhere", tmp_path / "out", **convert_options({"source_format": kind, **masks})
            )
        assert str(caught.value.path).startswith(f"{root}/nowhere")


def test_links_out_of_a_folder_are_ignored(tmp_path: Path, web: str) -> None:
    """Pages link to the folder above, to other orders of their lines, and elsewhere."""
    (tmp_path / "above.jpg").write_bytes(b"")
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    for name in ("1.jpg", "2 %.jpg"):
        (folder / name).write_bytes(b"12345")
    inside = ["b/", "./b/", "b/../", "/a/b/"]
    links = ["../", "/", "/above.jpg", "?C=N;O=D", *inside, "../../", "#top", "http://127.0.0.2/a/x.jpg"]
    (tmp_path / "a" / "index.html").write_text("".join(f'<a href="{link}">x</a>' for link in links))
    assert Store(f"{web}/a").files() == [("b/1.jpg", 5, 0), ("b/2 %.jpg", 5, 0)]
    assert Store(f"{web}/a").files(["b/1.jpg", "b/3.jpg"]) == [("b/1.jpg", 5, 0)]
    with pytest.raises(StorageError, match="does not exist"):
        Store(f"{web}/nowhere").files()


def test_pages_that_are_nested_without_end_are_refused() -> None:
    fetched = []

    def links(page: str) -> list[str]:
        fetched.append(page)
        return [f"{page}a/", f"{page}b/", f"{page}1.jpg"]

    with pytest.raises(StorageError, match="nested more than 64 levels deep"):
        crawl(links, "http://server")
    assert len(fetched) < 100


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/x/images/y/images/train", ("/x/images/y", "train")),
        ("/images", ("/", "")),
        ("/x/other", None),
        ("s3://bucket/x/images/", ("s3://bucket/x", "")),
        ("s3://bucket/images/a/b", ("s3://bucket", "a/b")),
        ("s3://images/train", None),
    ],
)
def test_a_path_is_split_at_the_last_folder_of_a_name(path: str, parts: tuple[str, str] | None) -> None:
    assert split_at_folder(path, "images") == parts


def test_the_parent_of_a_bucket_is_the_bucket() -> None:
    assert open_folder("memory://bucket/a/b").parent.root == "memory://bucket/a"
    assert open_folder("memory://bucket").parent.root == "memory://bucket"
    assert open_folder("/a/b").parent.root == "/a"
