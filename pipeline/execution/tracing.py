"""The stages of a loader's work, such as "planning": the time that each takes, for statistics and traces."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, time_ns
from typing import Any

from stoker import _native
from stoker.errors import ConfigError

_NATIVE_STAGES = ("read", "decode", "augment")


class StageTimes:
    """Seconds that a thread spends in each stage, without those of the stages inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.trace: Trace | None = None
        self._inner: list[float] = []

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Measure what happens in the block, and show it to profilers as ``stoker.<name>``."""
        return _Stage(self, name)


class _Stage:
    """One run of a stage; a generator would take several times as long."""

    __slots__ = ("_began", "_name", "_range", "_times")

    def __init__(self, times: StageTimes, name: str) -> None:
        self._times = times
        self._name = name

    def __enter__(self) -> None:
        self._range = profiler_range(self._name)
        if self._range is not None:
            self._range.__enter__()
        self._times._inner.append(0.0)
        self._began = perf_counter()

    def __exit__(self, *error: Any) -> None:
        times, name, began = self._times, self._name, self._began
        end = perf_counter()
        seconds = end - began
        times.seconds[name] = times.seconds.get(name, 0.0) + seconds - times._inner.pop()
        if times._inner:
            times._inner[-1] += seconds
        if trace := times.trace:
            trace.add(name, began, end)
        if self._range is not None:
            self._range.__exit__(*error)


def profiler_range(name: str) -> AbstractContextManager[Any] | None:
    """A range ``stoker.<name>``: NVTX's if nvtx is imported, PyTorch's if its profiler runs, both, or None.

    PyTorch shows ranges of the thread that began the profiler; of other threads with ``profile_all_threads``.
    """
    shown: AbstractContextManager[Any] | None = None
    nvtx = sys.modules.get("nvtx")
    if nvtx is not None and hasattr(nvtx, "annotate"):
        shown = nvtx.annotate(f"stoker.{name}", domain="stoker")
    # Not torch.autograd._profiler_enabled(), which knows only the calling thread.
    if not getattr(sys.modules.get("torch.autograd.profiler"), "_is_profiler_enabled", False):
        return shown
    record: AbstractContextManager[Any] = sys.modules["torch.profiler"].record_function(f"stoker.{name}")
    return record if shown is None else _both(shown, record)


@contextmanager
def _both(outer: AbstractContextManager[Any], inner: AbstractContextManager[Any]) -> Iterator[None]:
    with outer, inner:
        yield


class Trace:
    """Stages of all threads, in the Trace Event Format of Chrome, which https://ui.perfetto.dev shows."""

    def __init__(self, path: Path, most: int = 1_000_000) -> None:
        self._path = path
        self._most = most
        self._events: list[tuple[str, int, str, float, float]] = []

    def add(self, name: str, began: float, end: float) -> None:
        """Record a stage of the calling thread; times are those of :func:`time.perf_counter`."""
        if len(self._events) < self._most:
            thread = threading.current_thread()
            self._events.append((name, threading.get_native_id(), thread.name, began, end))

    def add_native(self, spans: list[tuple[int, int, int, int]], shift: float) -> None:
        """Record the stages of native threads."""
        names = {thread: f"stoker-native-{i}" for i, thread in enumerate(sorted({one[0] for one in spans}))}
        room = max(0, self._most - len(self._events))
        self._events += [
            (_NATIVE_STAGES[stage], thread, names[thread], began / 1e9 + shift, end / 1e9 + shift)
            for thread, stage, began, end in spans[:room]
        ]

    def write(self, profile: dict[str, Any] | None = None) -> None:
        """Write the file; its times are microseconds after ``baseTimeNanoseconds``, nanoseconds since 1970.

        Begin and end are rounded to nanoseconds, Perfetto's unit. So nested stages stay nested in Perfetto.
        """
        process, clock, prefix = os.getpid(), time_ns() - round(perf_counter() * 1e9), ""
        self._events.sort(key=lambda one: (one[3], -one[4]))
        if profile is None:
            first = clock + round(self._events[0][3] * 1e9) if self._events else 0
            profile = {"traceEvents": [], "displayTimeUnit": "ms", "baseTimeNanoseconds": first}
        else:
            prefix = "stoker."
        shift = clock - profile.get("baseTimeNanoseconds", 0)
        names = {thread: name for _, thread, name, _, _ in self._events}
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
            for thread, name in names.items()
        ]
        events += [
            {"name": f"{prefix}{name}", "cat": "stoker", "ph": "X", "pid": process, "tid": thread}
            | {"ts": (shift + round(began * 1e9)) / 1e3, "dur": (round(end * 1e9) - round(began * 1e9)) / 1e3}
            for name, thread, _, began, end in self._events
        ]
        document = {**profile, "traceEvents": [*profile["traceEvents"], *events]}
        self._path.write_text(json.dumps(document), "utf-8")


@contextmanager
def traced(stages: StageTimes, path: Path, profiler: Any = None) -> Iterator[None]:
    """Write a trace of the stages that end in the block, native ones too; see ``Loader.trace``."""
    if profiler is not None and not hasattr(profiler, "export_chrome_trace"):
        raise ConfigError(
            f"profiler must be a torch.profiler.profile, found {type(profiler).__name__}",
            hint="Give that of torch.profiler.profile(), or leave profiler out.",
        )
    stages.trace = trace = Trace(path)
    shift = perf_counter() - _native.trace_start() / 1e9
    try:
        yield
    finally:
        stages.trace = None
        trace.add_native(_native.trace_take(), shift)
        trace.write(None if profiler is None else _exported(profiler))


def _exported(profiler: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stoker-trace-") as folder:
        file = Path(folder) / "profile.json"
        profiler.export_chrome_trace(str(file))
        found: dict[str, Any] = json.loads(file.read_bytes())
        return found


# NVTX is a header. These libraries, from CUDA and the package nvidia-nvtx, have its functions for programs
# that cannot include it.
_LIBRARIES = ("libnvtx3interop.so.1", "libnvToolsExt.so.1")
_FOLDERS = ("cu13/lib", "nvtx/lib")  # in the package nvidia


def show_native_ranges() -> None:
    """Show reading, decoding and augmentation of native threads as ranges of NVTX, if nvtx is imported.

    Without a library of NVTX's functions nothing happens.
    """
    if "nvtx" in sys.modules:
        _set_functions()


@cache
def _set_functions() -> None:
    library = _library()
    if library is not None:
        functions = (library.nvtxRangePushA, library.nvtxRangePop)
        _native.set_range_functions(
            *(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
        )


def _library() -> Any:
    """Return the first library that loads; None if none does."""
    package = find_spec("nvidia")
    locations = (package and package.submodule_search_locations) or ()
    folders = [Path(location) / folder for location in locations for folder in _FOLDERS]
    for name in _LIBRARIES:
        for file in (name, *(str(folder / name) for folder in folders)):
            try:
                return ctypes.CDLL(file)
            except OSError:  # noqa: PERF203 - four tries at most
                continue
    return None
