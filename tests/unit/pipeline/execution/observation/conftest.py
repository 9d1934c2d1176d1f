"""Fixtures of statistics and traces: a clock that stands still."""

import pytest

from stoker.pipeline.execution import stats
from stoker.pipeline.execution import stats as stages


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the clock, as the only number of a list; the patches stand for seconds that pass."""
    time = [100.0]
    for module in (stages, stats):
        monkeypatch.setattr(module, "perf_counter", lambda: time[0])
    return time
