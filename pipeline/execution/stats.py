"""A loader's measurements of itself: the stages of its work, traces of them, and statistics."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, time_ns
from typing import Any, NamedTuple

from stoker import _native
from stoker.errors import ConfigError
from stoker.formats.files import temporary_folder

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
        process: int | str = os.getpid()
        clock, prefix = time_ns() - round(perf_counter() * 1e9), ""
        self._events.sort(key=lambda one: (one[3], -one[4]))
        if profile is None:
            first = clock + round(self._events[0][3] * 1e9) if self._events else 0
            profile = {"traceEvents": [], "displayTimeUnit": "ms", "baseTimeNanoseconds": first}
        else:
            # PyTorch's clock and ours differ by microseconds, and Perfetto drops what overlaps in one thread.
            process, prefix = "Stoker", "stoker."
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
    with temporary_folder("stoker-trace-") as folder:
        file = Path(folder) / "profile.json"
        profiler.export_chrome_trace(str(file))
        found: dict[str, Any] = json.loads(file.read_bytes())
        return found


# NVTX is a header. These libraries, from CUDA and the package nvidia-nvtx, have its functions for programs
# that cannot include it.
_LIBRARIES = ("libnvtx3interop.so.1", "libnvToolsExt.so.1")
_FOLDERS = ("cu13/lib", "nvtx/lib")  # in the package nvidia


def show_native_ranges() -> None:
    """Show reading, decoding and augmentation of native threads as ranges of NVTX, if nvtx is imported."""
    # Without a library of NVTX's functions nothing happens.
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


@dataclass(frozen=True)
class Counters:
    """Counts since the loader was made; zeros for datasets that lie on this machine."""

    bytes_fetched: int = 0  # Bytes that came from the storage
    retries: int = 0  # Requests that were tried again, by all loaders of this process
    cache_hits: int = 0  # Blocks of the cache that were there when a batch was planned
    cache_misses: int = 0  # Blocks that had to be fetched
    bytes_evicted: int = 0  # Bytes that the cache has freed

    def minus(self, before: Counters) -> Counters:
        """The counts since ``before``."""
        return Counters(*(getattr(self, count.name) - getattr(before, count.name) for count in fields(self)))


@dataclass(frozen=True)
class MakerStats:
    """Batches of one maker since the loader was made."""

    name: str  # "local", or the address of a worker's machine
    batches: int  # Batches that were received from it
    samples: int  # Samples of these batches on this rank
    samples_per_second: float  # Samples received in a second, from its first request to its latest answer
    bytes: int  # Bytes of their images or token ids
    seconds: float  # Seconds from asking for a batch to receiving it, on average


class Traffic:
    """Statistics of all makers of one loader, and of the batches that were made a second time."""

    def __init__(self) -> None:
        self.repeated = 0
        self._makers: dict[str, MakerStats] = {}
        self._first: dict[str, float] = {}  # time of the first request

    def add_batches(
        self, name: str, batches: int, samples: int, size: int, *, asked: float, received: float
    ) -> None:
        """Count batches of a maker, of ``size`` bytes, that were asked for and received at these seconds."""
        if not batches:
            return
        before = self._makers.get(name) or MakerStats(name, 0, 0, 0.0, 0, 0.0)
        span = received - self._first.setdefault(name, asked)
        number, total = before.batches + batches, before.samples + samples
        seconds = (before.seconds * before.batches + (received - asked) * batches) / number
        self._makers[name] = MakerStats(
            name, number, total, total / max(span, 1e-9), before.bytes + size, seconds
        )

    def makers(self) -> tuple[MakerStats, ...]:
        return tuple(self._makers.values())


_KEYS_KEPT = 1000
_STAGES = ("planning", "executing", "handing over", "copying", "idle")


class _Mark(NamedTuple):
    """The totals at one moment; ``time`` is of :func:`time.perf_counter`."""

    time: float
    totals: StatsTotals
    seconds: dict[str, float]
    bad_keys: int
    counters: Counters


@dataclass
class StatsTotals:
    """Running totals of one loader: seconds, samples and bad samples.

    ``seen`` counts the samples that were made, bad ones included, and ``samples`` those received.
    ``first_wait`` is the part of ``waited`` that passed before the first batch.
    ``engine``, ``slow_steps`` and ``custom_steps`` are those of :class:`Stats`.

    The worker thread writes ``worker`` and ``seen``, and the consumer's thread the rest.
    """

    began: float | None = None
    samples: int = 0
    batches: int = 0
    waited: float = 0.0
    first_wait: float = 0.0
    worker: StageTimes = field(default_factory=StageTimes)
    seen: int = 0
    skipped: int = 0
    replaced: int = 0
    bad_keys: list[str] = field(default_factory=list)
    engine: str = ""
    slow_steps: tuple[str, ...] = ()
    custom_steps: tuple[str, ...] = ()
    marks: dict[str, _Mark] = field(default_factory=dict)

    def begin(self, counters: Counters | None = None) -> None:
        """Begin a pass: time is measured from the first one on."""
        self.marks["pass"] = self._mark(counters or Counters())
        if self.began is None:
            self.began = perf_counter()
            self.marks["start"] = self.marks["last"] = self.marks["pass"]

    def wait(self, began: float, end: float) -> None:
        """Count the time that the consumer has waited; both are times of :func:`time.perf_counter`."""
        self.waited += end - began
        if not self.batches:
            self.first_wait += end - began
        if trace := self.worker.trace:
            trace.add("waiting", began, end)

    def receive(self, finished: Any) -> None:
        """Count a batch that the consumer receives; at most a thousand keys are kept."""
        self.batches += 1
        self.samples += finished.samples
        self.skipped += finished.skipped
        self.replaced += finished.replaced
        self.bad_keys.extend(finished.bad_keys[: _KEYS_KEPT - len(self.bad_keys)])

    def _mark(self, counters: Counters) -> _Mark:
        return _Mark(perf_counter(), copy(self), dict(self.worker.seconds), len(self.bad_keys), counters)

    def stats(self, since: str = "start", counters: Counters | None = None) -> Stats:
        """Return the totals since a mark: the "start", the "pass", or the "last" call with "last"."""
        now = self._mark(counters or Counters())
        start = self.marks.get(since) or _Mark(now.time, StatsTotals(), {}, 0, Counters())
        if since == "last":
            self.marks["last"] = now
        totals, before = now.totals, start.totals
        seconds, waited = now.time - start.time, totals.waited - before.waited
        samples = totals.samples - before.samples
        stages = {name: total - start.seconds.get(name, 0.0) for name, total in now.seconds.items()}
        return Stats(
            samples=samples,
            batches=totals.batches - before.batches,
            seconds=seconds,
            samples_per_second=samples / seconds if seconds else 0.0,
            waited=waited,
            waited_share=min(1.0, waited / seconds) if seconds else 0.0,
            producer={**dict.fromkeys(_STAGES, 0.0), **stages},
            skipped=totals.skipped - before.skipped,
            replaced=totals.replaced - before.replaced,
            bad_keys=tuple(self.bad_keys[start.bad_keys : now.bad_keys]),
            engine=self.engine,
            slow_steps=self.slow_steps,
            custom_steps=self.custom_steps,
            counters=now.counters.minus(start.counters),
            first_wait=totals.first_wait - before.first_wait,
        )


@dataclass(frozen=True)
class Stats:
    """The work of a loader since its first pass began, or in another window of ``loader.stats``."""

    samples: int  # Samples that the consumer has received
    batches: int  # Batches that the consumer has received
    seconds: float  # Wall time of the window
    samples_per_second: float  # ``samples / seconds``, so the consumer's own time counts
    waited: float  # Seconds that the consumer waited for a batch
    waited_share: float  # ``waited / seconds``, at most 1
    # Seconds of the worker thread, by what it did: "planning" batches and checking payloads, waiting for a
    # remote dataset ("fetching") and for the engine ("executing"), "handing over" batches, "copying" them to
    # the framework, "idle" with ``prefetch`` batches ready, and the name of each batch transform and function
    producer: dict[str, float]
    skipped: int  # Bad samples left out (``on_error="skip"``)
    replaced: int  # Bad samples replaced (``on_error="replace"``)
    bad_keys: tuple[str, ...]  # Keys of the first thousand bad samples
    engine: str = ""  # Name of the engine that makes images; empty for text
    slow_steps: tuple[str, ...] = ()  # Names of the steps that only the slow engine "reference" executes
    # Names of the steps that run in Python after all others, on a fast engine
    custom_steps: tuple[str, ...] = ()
    # Counts of the cache and the storage of a remote dataset
    counters: Counters = field(default_factory=Counters)
    ready: int = 0  # Batches that lie ready now; if it stays 0, the loader is the limit
    rank: int = 0  # Rank of this process
    world_size: int = 1  # Number of ranks
    stores: tuple[str, ...] = ()  # Folder or URL of each dataset
    # Batches of this process and of each worker since the loader was made; empty without workers
    makers: tuple[MakerStats, ...] = ()
    made_again: int = 0  # Batches that were made a second time, because a worker was lost or slow
    # Seconds of ``waited`` before the loader's first batch, which the verdict leaves out
    first_wait: float = 0.0

    @property
    def verdict(self) -> str:
        """The limit of the training loop, with the engine and the dataset, and the number of bad samples."""
        # The wait for the loader's first batch, while threads and reading start, does not count.
        if not self.batches:
            return "Nothing has been loaded yet."
        bad = self.skipped + self.replaced
        what = "skipped" if self.skipped else "replaced"
        count = f" {bad} bad sample{'s were' if bad > 1 else ' was'} {what}." if bad else ""
        return self._limit() + count

    def _limit(self) -> str:
        if self.batches == 1 and self.first_wait:
            return f"One batch of {self._data()} alone does not show what limits the training."
        seconds = self.seconds - self.first_wait
        share = min(1.0, (self.waited - self.first_wait) / seconds) if seconds > 0 else 0.0
        if share < 0.05:
            waited = f"{share:.1%} of the time for {self._data()}"
            return f"The step is the limit: the loop waited {waited}."
        busiest = max((name for name in self.producer if name != "idle"), key=self.producer.__getitem__)
        advice = {
            "planning": "Python planning and payload checks take the time: use larger batches.",
            "fetching": "Storage or network take the time"
            f"{self._bandwidth()}: bring the dataset here first (stoker stage).",
            "executing": self._advice_on_engine(),
            "handing over": "Putting batches together takes the time: use fewer columns.",
            "copying": "Copying to the framework takes the time: use a smaller dtype.",
        }.get(busiest, f"{busiest} takes the time: do that on the device, in the step.")
        waited = f"{share:.0%} of the time for {self._data()}"
        return f"The loader is the limit: the loop waited {waited}. {advice}"

    def _data(self) -> str:
        """The word "data", with the datasets and the engine."""
        others = len(self.stores) - 1
        named = " and ".join(self.stores) if others < 2 else f"{self.stores[0]} and {others} other datasets"
        engine = f" (engine {self.engine!r})" if self.engine else ""
        return f"data{' of ' * bool(named)}{named}{engine}"

    def _bandwidth(self) -> str:
        fetched = self.counters.bytes_fetched
        return f" ({fetched / self.seconds / 1e6:,.1f} MB a second came)" if fetched and self.seconds else ""

    def _advice_on_engine(self) -> str:
        if self.engine != "reference":
            work, advice = "augmentation", "use more threads or store smaller samples"
            if self.custom_steps:
                work = f"{_steps(self.custom_steps)} in Python"
                advice = "use more threads, store smaller samples, or do less in Python"
            return f"Reading, decoding and {work} take the time: {advice}."
        if not self.slow_steps:
            return "The slow engine 'reference' takes the time: leave out engine='reference'."
        explanation = explain_slow_engine(self.slow_steps)
        return f"{explanation[0].upper()}{explanation[1:]}."


def explain_slow_engine(steps: tuple[str, ...]) -> str:
    """Return why the slow engine runs, and what to do about it; only this engine executes ``steps``."""
    it = "them" if len(steps) > 1 else "it"
    return (
        f"the slow engine 'reference' runs all transforms, because only it executes {_steps(steps)} "
        f"before another step: move {it} after all other steps, or write {it} as a Table of levels, or as a "
        "function of batches at the end of the list, and a fast engine runs the others"
    )


def _steps(names: tuple[str, ...]) -> str:
    return f"the step{'s' if len(names) > 1 else ''} {' and '.join(names)}"
