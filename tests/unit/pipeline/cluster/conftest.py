"""Fixtures of the tests of loaders with workers on a Ray cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from helpers.cluster import RayStandIn

from stoker.pipeline.cluster import workers


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers wait for milliseconds where it otherwise waits for seconds."""
    for name in ("_LISTING", "_LEAST", "_TICK"):
        monkeypatch.setattr(workers, name, 0.001)


@pytest.fixture
def use_ray(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RayStandIn]:
    """``use_ray(before_wait, **cores)``: replaces Ray by a stand-in with these machines."""

    def make(before_wait: Callable[[RayStandIn], None] = lambda _: None, **cores: int) -> RayStandIn:
        ray = RayStandIn(cores or {"a0": 2, "b0": 2}, before_wait)
        monkeypatch.setitem(sys.modules, "ray", ray)
        return ray

    return make
