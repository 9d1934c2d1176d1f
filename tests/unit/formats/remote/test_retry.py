"""Retries of calls to a storage. No test waits."""

from __future__ import annotations

import errno
import os
import threading
from typing import Any

import pytest

from stoker.errors import StorageError
from stoker.formats.remote.store import Store


class Waits(threading.Event):
    """An event that records the pauses instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        return self.is_set()


class StatusError(Exception):
    """An error like those of aiohttp for the answer of a server."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def store(memory: Any, waits: Waits) -> Store:
    memory.pipe_file("/bucket/file", b"content")
    return Store("memory://bucket", waits)


def fail(monkeypatch: pytest.MonkeyPatch, memory: Any, error: Exception, times: int) -> None:
    """Let the next ``times`` reads of a store in memory fail."""
    original, failures = type(memory).cat_file, [error] * times

    def cat_file(self: Any, path: str, **options: Any) -> bytes:
        if failures:
            raise failures.pop()
        return bytes(original(self, path, **options))

    monkeypatch.setattr(type(memory), "cat_file", cat_file)


def refused() -> OSError:
    return OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failing_server_is_retried_for_about_a_minute(
    store: Store, waits: Waits, memory: Any, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    fail(monkeypatch, memory, StatusError(status), 100)
    with pytest.raises(StorageError, match=f"cannot be read: status {status}") as caught:
        store.read("file")
    assert caught.value.path == "memory://bucket/file"
    assert len(waits.seconds) == 9
    assert 25 < sum(waits.seconds) < 77
    assert all(0.05 * 2**i <= seconds < 0.15 * 2**i for i, seconds in enumerate(waits.seconds))


@pytest.mark.usefixtures("every_event")
def test_a_server_that_recovers_before_the_last_try_is_read_and_each_retry_is_logged(
    store: Store,
    waits: Waits,
    memory: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fail(monkeypatch, memory, StatusError(503), 9)
    assert store.read("file") == b"content"
    assert len(waits.seconds) == 9
    assert {(record.name, record.levelname) for record in caplog.records} == {("stoker.storage", "WARNING")}
    failed = "memory://bucket/file: being read failed (status 503)"
    assert caplog.messages == [f"{failed}; try {number} of 10 follows" for number in range(2, 11)]


@pytest.mark.parametrize("error", [StatusError(403), PermissionError("not yours")])
def test_a_permanent_error_is_raised_at_once(
    store: Store, waits: Waits, memory: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    fail(monkeypatch, memory, error, 1)
    with pytest.raises(StorageError):
        store.read("file")
    assert not waits.seconds


def test_a_refused_connection_is_retried_longer_if_the_server_has_answered_before(
    store: Store, waits: Waits, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail(patch, memory, refused(), 100)
        with pytest.raises(StorageError, match="refused"):
            store.read("file")
        assert len(waits.seconds) == 5
    assert store.read("file") == b"content"
    waits.seconds.clear()
    fail(monkeypatch, memory, refused(), 100)
    with pytest.raises(StorageError, match="refused"):
        store.read("file")
    assert len(waits.seconds) == 9


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (StatusError(403), "credentials"),
        (PermissionError("not yours"), "credentials"),
        (StatusError(429), "fewer requests"),
        (StatusError(500), "internal error"),
        (StatusError(416), "has changed"),
        (refused(), "server runs"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "connection was cut"),
        (TimeoutError("too long"), "did not answer in time"),
        (ValueError("odd"), "Check the address"),
    ],
)
def test_the_hint_fits_the_error_of_the_storage(
    store: Store, memory: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, hint: str
) -> None:
    fail(monkeypatch, memory, error, 100)
    with pytest.raises(StorageError) as caught:
        store.read("file")
    assert hint in str(caught.value.hint)
