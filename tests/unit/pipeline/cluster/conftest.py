"""Fixtures of the tests of loaders with workers on a Ray cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from helpers.ray_stand_in import RayStandIn

from stoker.pipeline.cluster import dispatcher


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LISTING", "_LEAST", "_TICK"):
        monkeypatch.setattr(dispatcher, name, 0.001)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RayStandIn]:
    """Puts a stand-in with these machines in the place of Ray."""

    def make(before_wait: Callable[[RayStandIn], None] = lambda _: None, **cores: int) -> RayStandIn:
        ray = RayStandIn(cores or {"a0": 2, "b0": 2}, before_wait)
        monkeypatch.setitem(sys.modules, "ray", ray)
        return ray

    return make
