"""Messages about events that repeat."""

import pytest

from stoker.log import EventLog


def test_an_event_that_repeats_is_logged_once_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    seconds = iter([0.0, 4.0, 5.0, 12.0])
    events = EventLog("storage", lambda: next(seconds))
    events.warning("retry", "try 1")
    events.warning("retry", "try 2")
    events.warning("slow", "another event")
    events.warning("retry", "try 3")
    assert caplog.messages == ["try 1", "another event", "try 3 (1 more since the last message)"]
    assert {(record.name, record.levelname) for record in caplog.records} == {("stoker.storage", "WARNING")}
