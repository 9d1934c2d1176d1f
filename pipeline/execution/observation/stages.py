"""The stages of a loader's work, such as "planning": the time that each takes, for statistics and traces."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["StageTimes", "Trace", "traced"]


class StageTimes:
    """Seconds that a thread spends in each stage. A stage inside another one counts by itself alone.

    Attributes:
        seconds: Seconds by the name of the stage.
        trace: Takes down every stage; None without a trace.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.trace: Trace | None = None
        self._inner: list[float] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure what happens in the block, and show it to PyTorch's profiler as ``stoker.<name>``."""
        with _profiler_range(name):
            began = perf_counter()
            self._inner.append(0.0)
            try:
                yield
            finally:
                seconds = perf_counter() - began
                self.seconds[name] = self.seconds.get(name, 0.0) + seconds - self._inner.pop()
                if self._inner:
                    self._inner[-1] += seconds
                if trace := self.trace:
                    trace.add(name, began, seconds)


def _profiler_range(name: str) -> AbstractContextManager[Any]:
    """A range for PyTorch's profiler; nothing if it does not run."""
    autograd = sys.modules.get("torch.autograd")
    profiler_runs = getattr(autograd, "_profiler_enabled", None)
    if profiler_runs is None or not profiler_runs():
        return nullcontext()
    shown: AbstractContextManager[Any] = sys.modules["torch.profiler"].record_function(f"stoker.{name}")
    return shown


class Trace:
    """Stages of all threads, in the Trace Event Format of Chrome, which https://ui.perfetto.dev shows.

    Args:
        path: File to write when the trace is closed.
        most: Largest number of stages; later ones are left out.
    """

    def __init__(self, path: Path, most: int = 1_000_000) -> None:
        self._path = path
        self._most = most
        self._events: list[tuple[str, int, str, float, float]] = []

    def add(self, name: str, began: float, seconds: float) -> None:
        """Take down a stage of the calling thread; times are of :func:`time.perf_counter`, seconds."""
        if len(self._events) < self._most:
            thread = threading.current_thread()
            self._events.append((name, threading.get_native_id(), thread.name, began, seconds))

    def write(self) -> None:
        """Write the file."""
        process = os.getpid()
        names = {thread: name for _, thread, name, _, _ in self._events}
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
            for thread, name in names.items()
        ]
        events += [
            {"name": name, "cat": "stoker", "ph": "X", "pid": process, "tid": thread}
            | {"ts": began * 1e6, "dur": seconds * 1e6}
            for name, thread, _, began, seconds in self._events
        ]
        document = {"traceEvents": events, "displayTimeUnit": "ms"}
        self._path.write_text(json.dumps(document), "utf-8")


@contextmanager
def traced(stages: StageTimes, path: Path) -> Iterator[None]:
    """Write a trace of the stages that end in the block."""
    stages.trace = trace = Trace(path)
    try:
        yield
    finally:
        stages.trace = None
        trace.write()
