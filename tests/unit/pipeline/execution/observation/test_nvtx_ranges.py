"""Ranges of NVTX on native threads, by a stand-in for NVTX's library.

The patches put it in: only CUDA has the library, and the loader looks for it once in a process.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from stoker import ImageLoader, _native
from stoker.augment import RandomResizedCrop
from stoker.pipeline.execution import stats as nvtx_ranges

RANGES: list[tuple[int, str]] = []
"""The names of ranges that began, and "end" for each end, with their threads."""


def record_range(name: str) -> int:
    RANGES.append((threading.get_native_id(), name))
    return 0


# They stay as long as the process runs, like the functions of a library.
PUSH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(lambda name: record_range(name.decode()))
POP = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: record_range("end"))


def test_native_threads_show_each_stage_of_each_sample(
    thumbnails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = SimpleNamespace(nvtxRangePushA=PUSH, nvtxRangePop=POP)
    monkeypatch.setattr(nvtx_ranges, "_library", lambda: library)
    nvtx_ranges._set_functions.cache_clear()

    def load() -> None:
        with ImageLoader(
            thumbnails, batch_size=61, transforms=[RandomResizedCrop(8)], engine="native", num_threads=2
        ) as loader:
            next(iter(loader))

    try:
        load()
        assert not RANGES, "nvtx is not imported"
        monkeypatch.setitem(sys.modules, "nvtx", ModuleType("nvtx"))
        load()
    finally:
        _native.set_range_functions(0, 0)
        nvtx_ranges._set_functions.cache_clear()
    shown = Counter(name for _, name in RANGES)
    assert set(shown) == {"stoker.read", "stoker.decode", "stoker.augment", "end"}
    assert min(shown.values()) >= 61, "the loader may have begun a second batch"
    assert shown["end"] >= 3 * 61, "every range of a finished sample has ended"
    assert threading.get_native_id() not in {thread for thread, _ in RANGES}


def test_without_a_library_no_range_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvtx_ranges, "_LIBRARIES", ("libnone-of-nvtx.so",))
    assert nvtx_ranges._library() is None
