"""Fixtures of the tests with frameworks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stoker.pipeline.engines.dali import DaliEngine
from stoker.pipeline.engines.native.engine import NativeEngine


class Left:
    """Images of an engine in the memory of a device, by DLPack; NumPy's memory stands in for a GPU's."""

    def __init__(self) -> None:
        room = np.empty(256, np.float32)
        first = -room.ctypes.data % 64 // 4  # as all memory of engines is aligned
        self.memory = room[first : first + 12].reshape(1, 2, 2, 3)
        self.memory[:] = np.arange(12).reshape(self.memory.shape)

    def __dlpack__(self, **_: Any) -> Any:
        return self.memory.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory.__dlpack_device__()


@pytest.fixture
def left() -> Left:
    """Twelve float32, (1, 2, 2, 3), at ``left.memory``."""
    return Left()


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The address of the images of each batch that an engine hands out during the test."""
    found: list[int] = []

    def noted(collect: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(engine: Any) -> Any:
            result = collect(engine)
            found.append(result.images.ctypes.data)
            return result

        return call

    for engine in (NativeEngine, DaliEngine):
        monkeypatch.setattr(engine, "collect", noted(engine.collect))
    return found
