"""Image lists and external shards at a web server that drops connections and lists no folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.errors import StorageError
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
