"""Reading ahead from a server that does not answer."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from stoker import Cache, ImageLoader, Reading
from stoker.augment import CenterCrop
from stoker.formats.remote.store import RangeReader
from stoker.pipeline.caching import read_ahead as cache_read_ahead


def test_a_loop_that_waits_for_a_silent_server_logs_a_warning(
    thumbnails: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    answers = threading.Event()

    class Messages(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())
            answers.set()

    read = RangeReader.__call__

    def read_later(reader: RangeReader, number: int, start: int, stop: int) -> bytes:
        assert answers.wait(60)
        return read(reader, number, start, stop)

    url = f"file://{thumbnails}"
    with ImageLoader(
        url,
        batch_size=61,
        transforms=[CenterCrop(8)],
        engine="native",
        reading=Reading(cache=Cache(tmp_path)),
    ) as loader:
        # A server that does not answer for ten seconds, the time before the first message.
        monkeypatch.setattr(RangeReader, "__call__", read_later)
        monkeypatch.setattr(cache_read_ahead, "_SILENCE", 0.0)
        logger, handler = logging.getLogger("stoker.storage"), Messages()
        logger.addHandler(handler)
        try:
            assert len(next(iter(loader)).image) == 61
        finally:
            logger.removeHandler(handler)
    assert messages[0].startswith(f"{url}: a batch has waited 0 s for the storage")
