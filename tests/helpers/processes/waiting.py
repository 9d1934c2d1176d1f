"""Waiting for another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Waits for a condition, which must come true in time; the limit is long enough for any machine."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    assert condition()
