"""Stores at URLs: their reads, and their errors."""

from __future__ import annotations

import gzip
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from stoker.errors import MissingDependencyError, StorageError
from stoker.formats.remote import store as store_module
from stoker.formats.remote.store import Store
from stoker.urls import is_url

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_reads_that_fail_or_come_short_are_tried_again(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.pipe("/bucket/a", b"0123456789")
    original, answers = type(memory).cat_file, [OSError("reset"), TimeoutError(), b"01", None]

    def cat_file(self: Any, path: str, start: int | None = None, end: int | None = None) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if answer is not None else original(self, path, start=start, end=end)

    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "cat_file", cat_file)
        assert Store("memory://bucket").read_range("a", 2, 6) == b"2345"
        assert not answers
    with pytest.raises(StorageError, match="10 bytes came where 12 were asked for") as caught:
        Store("memory://bucket").read_range("a", 0, 12)
    assert "has changed" in str(caught.value.hint)


@pytest.mark.parametrize(("read", "arguments"), [("read", ()), ("read_range", (0, 2))])
def test_the_error_for_a_missing_file_names_its_url(
    memory: Any, read: str, arguments: tuple[int, ...]
) -> None:
    memory.pipe("/bucket/a", b"0123")
    store = Store("memory://bucket/")
    with pytest.raises(StorageError, match="does not exist") as caught:
        getattr(store, read)("missing", *arguments)
    assert caught.value.path == "memory://bucket/missing"
    assert store.read_if_there("missing") is None


def test_only_a_path_with_a_protocol_is_a_url() -> None:
    assert is_url("s3://bucket/x")
    assert is_url("file:///x")
    assert not is_url("/x/y")
    assert not is_url(Path("s3://bucket"))
    assert not is_url(3)


def test_an_error_of_the_storage_has_no_credentials_of_urls(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("memory://user:SECRET@bucket/shards")
    assert "SECRET" not in repr(store)

    def refuse(self: Any, path: str) -> None:
        raise PermissionError(f"no access to {path} for SECRET")

    monkeypatch.setattr(type(memory), "info", refuse)
    with pytest.raises(StorageError) as caught:
        store.size("x")
    assert "SECRET" not in str(caught.value.path)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_storage_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="no such storage") as caught:
        Store("nonsense://bucket")
    assert caught.value.path == "nonsense://bucket"
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingDependencyError, match="pip install fsspec aiohttp"):
        Store("s3://bucket")


class _Answers(BaseHTTPRequestHandler):
    """Answers by the name that is asked for: without an end, compressed, small, or with a status."""

    protocol_version = "HTTP/1.1"
    encodings: ClassVar[list[str | None]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.encodings.append(self.headers.get("Accept-Encoding"))
        compressed = "gzip" in self.path or "gzip" in (self.headers.get("Accept-Encoding") or "")
        body = gzip.compress(bytes(1 << 24)) if compressed else b"0123456789"
        self.send_response(int(self.path[1:]) if self.path[1:].isdigit() else 200)
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        if "endless" not in self.path:
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "text/html")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):  # the client has seen enough
            self.wfile.write(body)
            while "endless" in self.path:
                self.wfile.write(bytes(1 << 16))
                time.sleep(0.001)


@pytest.fixture
def answers() -> Iterator[str]:
    _Answers.encodings.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_server_that_refuses_a_file_of_a_list_is_not_a_missing_file(answers: str) -> None:
    store = Store(answers)
    assert [file.name for file in store.files(["small", "404", "410"])] == ["small"]
    for name, words in (("403", "403"), ("500", "500"), ("endless", "does not state the size")):
        with pytest.raises(StorageError, match=words) as caught:
            store.files(["small", name])
        assert caught.value.path == f"{answers}/{name}"


def test_answers_of_a_server_are_limited(
    answers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_MOST_WHOLE", "_MOST_PAGE", "_MOST_UNSTATED"):
        monkeypatch.setattr(store_module, name, 1 << 20)
    store = Store(answers)
    for call in (store.read, lambda name: store.download(name, tmp_path / "file")):
        with pytest.raises(StorageError, match=r"more than 1,048,576 bytes came"):
            call("endless")
    with pytest.raises(StorageError, match=r"the page has more than 1,048,576 bytes"):
        Store(f"{answers}/endless").files()
    assert len(store.read_if_there("endless", most=4096) or b"") < 1 << 20
    with pytest.raises(StorageError, match="does not answer range requests"):
        store.read_range("endless", 0, 4096)
    assert (store.read("small"), set(_Answers.encodings)) == (b"0123456789", {"identity"})
    with pytest.raises(StorageError, match=r"compresses its answers \(gzip\)"):
        store.read("gzip")


def test_an_answer_that_trickles_is_given_up(answers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_SILENT_SECONDS", 0.0)
    monkeypatch.setattr(store_module, "_LEAST_RATE", 1 << 40)
    with pytest.raises(StorageError, match=r"bytes came in") as caught:
        Store(answers).read("endless")
    assert "in time" in str(caught.value.hint)
