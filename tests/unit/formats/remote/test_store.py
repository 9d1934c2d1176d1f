"""Stores at URLs: their reads, and their errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import MissingDependencyError, StorageError
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
