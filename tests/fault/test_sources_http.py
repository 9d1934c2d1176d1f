"""Lists of images at a web server that drops connections, refuses, and lists no folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import stoker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("kind", ["csv", "coco"])
@pytest.mark.parametrize("faults", [(), ("drop",), ("refuse", "drop")])
def test_a_list_at_a_bad_server_gives_the_records_of_one_that_is_here(
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
    here = stoker.convert(file, tmp_path / "here", shards=1)
    there = stoker.convert(f"{server.url}/{file.name}", tmp_path / "there", shards=1)
    assert here.skipped == there.skipped == {"unreadable": 1}
    shards = [stoker.open(tmp_path / side).manifest.shards for side in ("here", "there")]
    assert shards[0] == shards[1]
