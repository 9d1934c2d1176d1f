"""Image lists and external shards at a web server that drops connections and lists no folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.datasets import jpeg
from helpers.shards import example, write_samples, write_tfrecord

import stoker
from stoker.augment import Resize
from stoker.errors import StokerError, StorageError
from stoker.formats.in_place.shards import index


@pytest.mark.parametrize("kind", ["csv", "coco"])
@pytest.mark.parametrize("faults", [(), ("drop",), ("refuse", "drop")])
def test_a_list_at_an_unreliable_server_gives_the_records_of_a_local_one(
    tmp_path: Path,
    make_jpeg: Callable[..., bytes],
    serve: Callable[[Path], Any],
    kind: str,
    faults: tuple[str, ...],
) -> None:
    names = [f"a/{i}.jpg" for i in range(6)]
    (tmp_path / "a").mkdir()
    for i, name in enumerate(names[:-1]):
        (tmp_path / name).write_bytes(make_jpeg(i))
    if kind == "csv":
        file = tmp_path / "list.csv"
        file.write_text("path,label\n" + "".join(f"{name},{i}\n" for i, name in enumerate(names)))
    else:
        file = tmp_path / "list.json"
        images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
        file.write_text(json.dumps({"images": images, "annotations": [], "categories": []}))
    server = serve(tmp_path)
    server.faults = faults
    here = stoker.convert(
        file,
        tmp_path / "here",
        storage=stoker.ImageStorage(shards=1),
        selection=stoker.Selection(allow_loss=1),
    )
    there = stoker.convert(
        f"{server.url}/{file.name}",
        tmp_path / "there",
        storage=stoker.ImageStorage(shards=1),
        selection=stoker.Selection(allow_loss=1),
    )
    assert here.skipped == there.skipped == {"unreadable": 1}
    shards = [stoker.open(tmp_path / side).manifest.shards for side in ("here", "there")]
    assert shards[0] == shards[1]


@pytest.mark.parametrize("faults", [("drop",), ("refuse", "drop")])
def test_external_shards_at_an_unreliable_server_are_read(
    tmp_path: Path, make_dataset: Callable[..., Path], serve: Callable[[Path], Any], faults: tuple[str, ...]
) -> None:
    folder = make_dataset()
    server = serve(folder)
    server.faults = faults
    names = sorted(path.name for path in folder.glob("*.tfrecord"))
    here = index([folder / name for name in names], tmp_path / "here")
    there = index([f"{server.url}/{name}" for name in names], tmp_path / "there")
    assert there.fingerprint == here.fingerprint
    dataset = stoker.open(tmp_path / "there", cache=tmp_path / "cache")
    assert [dataset.read(i) for i in range(6)] == [stoker.open(folder).read(i) for i in range(6)]


def test_external_shards_at_a_server_without_ranges_are_an_error(
    tmp_path: Path, make_dataset: Callable[..., Path], serve: Callable[[Path], Any]
) -> None:
    folder = make_dataset()
    server = serve(folder)
    server.ranges = False
    (name, *_) = sorted(path.name for path in folder.glob("*.tfrecord"))
    with pytest.raises(StorageError, match="does not answer range requests") as caught:
        index([f"{server.url}/{name}"], tmp_path / "there")
    assert caught.value.path == f"{server.url}/{name}"


@pytest.mark.parametrize("source", ["c.parquet", "a.tar", "a-00000-of-00001", "list.csv", "dataset"])
def test_signed_urls_are_sources_and_leave_no_signature(
    tmp_path: Path, make_dataset: Callable[..., Path], serve: Callable[[Path], Any], source: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "indexes"))
    folder = tmp_path / "served"
    (make_dataset()).rename(tmp_path / "dataset")
    folder.mkdir()
    images = [jpeg(i) for i in range(3)]
    pq.write_table(pa.table({"image": images, "label": [0, 1, 2]}), folder / "c.parquet")
    write_samples(folder / "a.tar", [{"__key__": f"{i}", "jpg": jpeg(i), "cls": i} for i in range(3)])
    write_tfrecord(folder / "a-00000-of-00001", [example(one, i) for i, one in enumerate(images)])
    (folder / "0.jpg").write_bytes(images[0])
    (folder / "list.csv").write_text("path,label\n0.jpg,cat")
    (tmp_path / "dataset").rename(folder / "dataset")
    server = serve(folder)
    server.signature = "X-Signature=SECRET%2F1"
    server.only = "" if source in ("list.csv", "dataset") else source
    url = f"{server.url}/{source}?{server.signature}"
    summary = stoker.convert(url, tmp_path / "out")
    assert summary.written == {"list.csv": 1, "dataset": 6}.get(source, 3)
    if source not in ("c.parquet", "list.csv"):
        dataset = stoker.open(url, cache=tmp_path / "cache")
        assert dataset.read(1) == stoker.open(tmp_path / "out").read(1)
        loader = stoker.ImageLoader(
            url.replace("//", "//user:SECRET@"), batch_size=2, transforms=[Resize((8, 8))],
            reading=stoker.Reading(cache=stoker.Cache(tmp_path / "cache")), output="numpy",
        )  # fmt: skip
        assert "SECRET" not in f"{dataset!r} {loader.describe()} {loader.state_dict()}"
    if source.startswith("a"):
        index([url], tmp_path / "in_place")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if b"SECRET" in file.read_bytes()]
    server.signature = "another"
    with pytest.raises(StokerError) as caught:
        stoker.convert(url, tmp_path / "again")
    assert "SECRET" not in str(caught.value)
