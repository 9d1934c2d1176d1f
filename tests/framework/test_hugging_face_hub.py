"""Sources at ``hf://``, read by Hugging Face's own file system.

``huggingface_hub.HfFileSystem`` is the real one, which fsspec takes for ``hf://``: its requests, its cache of
listings, and revisions in paths. The server is a stand-in on this machine, which answers these requests as
the Hub's API does (https://huggingface.co/docs/hub/api). It has one public dataset with two revisions, and no
transfer by Xet.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from helpers.datasets import jpeg
from helpers.shards import write_samples

import stoker
from stoker.augment import CenterCrop
from stoker.errors import StokerError
from stoker.formats.in_place.shards import index
from stoker.formats.remote.store import Store

pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: pip install huggingface_hub")
pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

_REPOSITORY = "team/photos"
_COMMITS = {"main": "a" * 40, "v1": "b" * 40}


class StandInHub:
    """A server with the files of a dataset in a folder for each revision.

    Attributes:
        url: Its address.
        ranges: The revision, the name and the bytes of every range that was read.
        paths: Paths of all requests.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ranges: list[tuple[str, str, int]] = []
        self.paths: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(hub: StandInHub) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - two selves
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                hub._answer(self)

            do_HEAD = do_POST = do_GET  # noqa: N815 - names of http.server

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(request.path).path)
        query = parse_qs(urlsplit(request.path).query)
        self.paths.append(path)
        match = re.fullmatch(rf"/api/datasets/{_REPOSITORY}(?:/([a-z-]+)/([^/]+)(?:/(.*))?)?", path)
        if match and (match[2] or "main") in (*_COMMITS, *_COMMITS.values()):
            self._api(request, match[1] or "revision", match[2] or "main", match[3] or "", body, query)
        elif match := re.fullmatch(rf"/datasets/{_REPOSITORY}/resolve/([^/]+)/(.*)", path):
            self._file(request, match[1], match[2])
        else:
            kind = "RevisionNotFound" if path.startswith(f"/api/datasets/{_REPOSITORY}/") else "RepoNotFound"
            self._send(request, 404, b'{"error": "not found"}', {"X-Error-Code": kind})

    def _api(
        self, request: Any, what: str, revision: str, path: str, body: bytes, query: dict[str, list[str]]
    ) -> None:
        folder = self._folder(revision)
        commit = _COMMITS.get(revision, revision)
        if what == "revision":
            answer: Any = {"_id": "1", "id": _REPOSITORY, "sha": commit, "private": False, "tags": []}
            answer["siblings"] = [{"rfilename": entry["path"]} for entry in self._entries(folder, "", True)]
        elif what == "tree":
            answer = self._entries(folder, path, query.get("recursive", ["false"])[0].lower() == "true")
        else:
            text = body.decode()
            asked = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text)["paths"]
            parents = {name.rpartition("/")[0] for name in asked}
            found = [entry for parent in parents for entry in self._entries(folder, parent, False)]
            answer = [entry for entry in found if entry["path"] in asked]
        self._send(request, 200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _folder(self, revision: str) -> Path:
        names = {commit: name for name, commit in _COMMITS.items()}
        return self.root / names.get(revision, revision)

    def _entries(self, folder: Path, path: str, recursive: bool) -> list[dict[str, Any]]:
        files = sorted((folder / path).rglob("*") if recursive else (folder / path).glob("*"))
        return [
            {
                "type": "directory" if file.is_dir() else "file",
                "oid": "c" * 40,
                "size": 0 if file.is_dir() else file.stat().st_size,
                "path": str(file.relative_to(folder)),
            }
            for file in files
        ]

    def _file(self, request: BaseHTTPRequestHandler, revision: str, name: str) -> None:
        file = self._folder(revision) / name
        if not file.is_file():
            self._send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        data, status = file.read_bytes(), 200
        headers = {"ETag": '"c"', "X-Repo-Commit": _COMMITS.get(revision, revision)}
        if asked := re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", "")):
            headers["Content-Range"] = f"bytes {asked[1]}-{asked[2]}/{len(data)}"
            data, status = data[int(asked[1]) : int(asked[2]) + 1], 206
            self.ranges.append((revision, name, len(data)))
        self._send(request, status, data, headers)

    def _send(
        self, request: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str]
    ) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInHub]:
    """The server, which fsspec's configuration names for ``hf://``."""
    import fsspec.config
    import pyarrow as pa
    import pyarrow.parquet as pq

    for revision, first in {"main": 0, "v1": 4}.items():
        folder = tmp_path / "hub" / revision / "data"
        folder.mkdir(parents=True)
        for shard in range(2):
            numbers = range(first + 2 * shard, first + 2 * shard + 2)
            samples = [{"__key__": f"k{i}", "jpg": jpeg(i), "cls": i % 3} for i in numbers]
            write_samples(folder / f"train-{shard}.tar", samples)
            table = pa.table({"image": [jpeg(i) for i in numbers], "label": [i % 3 for i in numbers]})
            pq.write_table(table, folder / f"train-{shard}.parquet")
    server = StandInHub(tmp_path / "hub")
    monkeypatch.setitem(fsspec.config.conf, "hf", {"endpoint": server.url, "token": False})
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "indexes"))
    yield server
    server.stop()


@pytest.mark.parametrize(("revision", "first"), [("", 0), ("@v1", 4)])
def test_parquet_files_of_a_dataset_are_converted(
    hub: StandInHub, revision: str, first: int, tmp_path: Path
) -> None:
    url = f"hf://datasets/{_REPOSITORY}{revision}/data/train-*.parquet"
    stoker.convert(url, tmp_path / "shards")
    dataset = stoker.open(tmp_path / "shards")
    assert [dataset.read(i) for i in range(4)] == [jpeg(first + i) for i in range(4)]
    assert {read for read, _, _ in hub.ranges} == {revision.removeprefix("@") or "main"}


@pytest.mark.parametrize(("revision", "first"), [("", 0), ("@v1", 4)])
def test_archives_of_a_dataset_are_loaded_in_place(
    hub: StandInHub, revision: str, first: int, tmp_path: Path
) -> None:
    url = f"hf://datasets/{_REPOSITORY}{revision}/data/train-{{0..1}}.tar"
    loader = stoker.ImageLoader(
        url,
        batch_size=4,
        transforms=[CenterCrop(16)],
        shuffle=False,
        reading=stoker.Reading(cache=stoker.Cache(tmp_path / "cache")),
    )
    with loader:
        assert [labels.tolist() for _, labels in loader] == [[(first + i) % 3 for i in range(4)]]
    assert {read for read, _, _ in hub.ranges} == {revision.removeprefix("@") or "main"}
    index([url], tmp_path / "index")
    dataset = stoker.open(tmp_path / "index", cache=tmp_path / "cache")
    assert [dataset.read(i) for i in range(4)] == [jpeg(first + i) for i in range(4)]


def test_a_read_of_a_range_requests_only_its_bytes(hub: StandInHub) -> None:
    store = Store(f"hf://datasets/{_REPOSITORY}/data")
    assert len(store.read_range("train-0.tar", 512, 1024)) == 512
    assert hub.ranges == [("main", "data/train-0.tar", 512)]


def test_a_missing_revision_or_file_is_named(hub: StandInHub, tmp_path: Path) -> None:
    for name in ("@v9/data/train-0.tar", "/data/train-9.tar"):
        url = f"hf://datasets/{_REPOSITORY}{name}"
        with pytest.raises(StokerError, match=r"train-\d\.tar"):
            stoker.convert(url, tmp_path / "shards")
        with pytest.raises(StokerError, match=r"train-\d\.tar"):
            index([url], tmp_path / "index")
