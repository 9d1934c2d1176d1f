"""Fixtures of the tests with frameworks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker.pipeline.engines.dali.engine import DaliEngine
from stoker.pipeline.engines.native import NativeEngine


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The address of the images of each batch that an engine hands out; no column of a batch has it."""
    found: list[int] = []

    def recording(collect: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(engine: Any) -> Any:
            result = collect(engine)
            found.append(result.images.ctypes.data)
            return result

        return call

    for engine in (NativeEngine, DaliEngine):
        monkeypatch.setattr(engine, "collect", recording(engine.collect))
    return found
