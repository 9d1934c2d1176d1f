"""Statistics of loaders, the stages of their work, traces, and their way to monitors."""

from __future__ import annotations

import ctypes
import json
import logging
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader, _native
from stoker.augment import RandomResizedCrop, Resize
from stoker.errors import ConfigError
from stoker.pipeline.execution import stats
from stoker.pipeline.execution.pipeline import FinishedBatch
from stoker.pipeline.execution.stats import MakerStats, StageTimes, StatsTotals, Trace, Traffic, traced


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the clock, as the only number of a list; the patches stand for seconds that pass."""
    time = [100.0]
    monkeypatch.setattr(stats, "perf_counter", lambda: time[0])
    return time


def test_rates_are_over_the_time_since_the_first_pass(now: list[float]) -> None:
    totals = StatsTotals()
    result = totals.stats()
    assert (result.samples, result.seconds, result.samples_per_second, result.waited_share) == (0, 0, 0, 0)
    assert result.verdict == "Nothing has been loaded yet."
    totals.begin()
    now[0] += 5
    totals.begin()
    totals.samples, totals.batches, totals.waited = 100, 10, 2.5
    now[0] += 5
    result = totals.stats()
    assert result.seconds == 10
    assert result.samples_per_second == 10
    assert result.waited_share == 0.25
    totals.waited = 10.1  # two threads that share a pass can wait at once
    assert totals.stats().waited_share == 1


def test_bad_keys_are_bounded_and_counts_are_not() -> None:
    totals = StatsTotals()
    for i in range(0, 1500, 3):
        totals.receive(FinishedBatch(([1, 2],), 2, skipped=3, bad_keys=tuple(f"k{i + k}" for k in range(3))))
    result = totals.stats()
    assert (result.skipped, result.batches, result.samples) == (1500, 500, 1000)
    assert result.bad_keys == tuple(f"k{i}" for i in range(1000))


STEP = "The step is the limit: the loop waited 4.0% of the time for data."
LOADER = "The loader is the limit: the loop waited 50% of the time for data"
SLOW = (
    "The slow engine 'reference' runs all transforms, because only it executes the steps Blot and Scratch "
    "before another step: move them after all other steps, or write them as"
)


@pytest.mark.parametrize(
    ("waited", "busy", "options", "begin", "words"),
    [
        (0.4, "executing", {}, STEP, ""),
        (5.0, "planning", {}, LOADER, "larger batches"),
        (5.0, "executing", {}, LOADER, "more threads"),
        (5.0, "fetching", {}, LOADER, "stoker stage"),
        (5.0, "handing over", {}, LOADER, "fewer columns"),
        (5.0, "copying", {}, LOADER, "smaller dtype"),
        (5.0, "executing", {"engine": "native"}, LOADER, "(engine 'native'). Reading, decoding and augment"),
        (5.0, "executing", {"engine": "native", "custom_steps": ("Scratch",)}, LOADER, "the step Scratch in"),
        (5.0, "executing", {"engine": "reference"}, LOADER, "leave out engine='reference'."),
        # It advised more threads where one step had moved all images to the slow engine.
        (5.0, "executing", {"engine": "reference", "slow_steps": ("Blot", "Scratch")}, LOADER, SLOW),
    ],
)
def test_the_verdict_names_the_limit_and_a_cure(
    now: list[float], waited: float, busy: str, options: dict[str, Any], begin: str, words: str
) -> None:
    totals = StatsTotals(**options)
    totals.begin()
    totals.batches, totals.waited = 1, waited
    now[0] += 10
    totals.worker.seconds = {"idle": 9.0, busy: 4.0}
    assert ("fetching" in totals.stats().producer) is (busy == "fetching")
    verdict = totals.stats().verdict
    assert verdict.startswith(begin)
    assert words in verdict
    assert ("threads" in verdict) == (begin == LOADER and busy == "executing" and "slow" not in verdict)


def test_a_short_run_is_not_called_slow_because_of_its_start(now: list[float]) -> None:
    totals = StatsTotals()
    totals.begin()
    finished = FinishedBatch(([1, 2],), 2)

    def batch(waited: float) -> None:
        now[0] += waited
        totals.wait(now[0] - waited, now[0])
        totals.receive(finished)

    batch(5.0)
    assert totals.stats().verdict.startswith("One batch of data alone does not show")
    now[0] += 1
    batch(0.25)
    now[0] += 8.75
    result = totals.stats()
    assert (result.waited, result.waited_share) == (5.25, 0.35)
    assert result.verdict.startswith("The step is the limit: the loop waited 2.5% of the time")
    totals.begin()
    batch(7.0)
    now[0] += 3
    assert "the loop waited 70% of the time" in totals.stats("pass").verdict, "a later wait counts"


def test_the_verdict_names_the_datasets() -> None:
    totals = StatsTotals(engine="native")
    totals.begin()
    totals.batches = 1
    for stores, words in (
        (("shards/a",), "for data of shards/a (engine 'native')."),
        (("shards/a", "s3://bucket/b"), "for data of shards/a and s3://bucket/b (engine 'native')."),
        (("shards/a", "b", "c"), "for data of shards/a and 2 other datasets (engine 'native')."),
    ):
        assert words in replace(totals.stats(), stores=stores).verdict


def test_the_rate_of_a_maker_goes_from_its_first_request_to_its_latest_answer() -> None:
    traffic = Traffic()
    traffic.add_batches("local", 1, samples=30, size=100, asked=10.0, received=12.0)
    traffic.add_batches("local", 1, samples=20, size=50, asked=11.0, received=15.0)
    assert traffic.makers() == (MakerStats("local", 2, 50, 10.0, 150, 3.0),)


def test_the_time_of_an_inner_stage_does_not_count_for_the_outer_one(now: list[float]) -> None:
    times = StageTimes()
    with times.stage("planning"):
        now[0] += 1
        with times.stage("fetching"):
            now[0] += 10
        now[0] += 2
    with suppress(OSError), times.stage("fetching"):
        now[0] += 5
        raise OSError
    assert times.seconds == {"planning": 3, "fetching": 15}


def test_a_trace_has_the_stages_that_end_while_it_runs(now: list[float], tmp_path: Path) -> None:
    times, file = StageTimes(), tmp_path / "trace.json"
    with times.stage("before"):
        now[0] += 1
    with traced(times, file), times.stage("planning"):
        now[0] += 3
    with times.stage("after"):
        now[0] += 1
    thread, shown = json.loads(file.read_text())["traceEvents"]
    assert (thread["ph"], thread["name"], thread["args"]) == ("M", "thread_name", {"name": "MainThread"})
    assert (shown["ph"], shown["name"], shown["ts"], shown["dur"]) == ("X", "planning", 0, 3e6)
    assert (shown["pid"], shown["tid"]) == (thread["pid"], thread["tid"])
    trace = Trace(file, most=2)
    for number in range(5):
        trace.add("planning", number, number + 1)
    trace.write()
    assert len(json.loads(file.read_text())["traceEvents"]) == 1 + 2, "their number is bounded"


def test_a_stage_is_a_range_of_nvtx_and_of_a_running_profiler_of_pytorch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The profiler got no ranges once nvtx was imported."""
    shown: list[str] = []

    @contextmanager
    def show(kind: str, name: str) -> Iterator[None]:
        shown.append(f"{kind} {name}")
        yield
        shown.append(f"{kind} ends")

    nvtx = SimpleNamespace(annotate=lambda name, domain: show(domain, name))
    record = SimpleNamespace(record_function=lambda name: show("torch", name))
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    monkeypatch.setitem(sys.modules, "torch.profiler", record)
    for enabled in (False, True):
        profiler = SimpleNamespace(_is_profiler_enabled=enabled)
        monkeypatch.setitem(sys.modules, "torch.autograd.profiler", profiler)
        with StageTimes().stage("planning"):
            shown.append("work")
    assert shown[:3] == ["stoker stoker.planning", "work", "stoker ends"]
    assert shown[3:5] == ["stoker stoker.planning", "torch stoker.planning"]
    assert shown[5:] == ["work", "torch ends", "stoker ends"]


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
    with monkeypatch.context() as patch:
        patch.setattr(stats, "_LIBRARIES", ("libnone-of-nvtx.so",))
        assert stats._library() is None, "without a library no range is shown"
    library = SimpleNamespace(nvtxRangePushA=PUSH, nvtxRangePop=POP)
    monkeypatch.setattr(stats, "_library", lambda: library)
    stats._set_functions.cache_clear()

    options = {"batch_size": 61, "transforms": [RandomResizedCrop(8)], "engine": "native", "num_threads": 2}

    def load() -> None:
        with ImageLoader(thumbnails, **options) as loader:
            next(iter(loader))

    try:
        load()
        assert not RANGES, "nvtx is not imported"
        monkeypatch.setitem(sys.modules, "nvtx", ModuleType("nvtx"))
        load()
    finally:
        _native.set_range_functions(0, 0)
        stats._set_functions.cache_clear()
    shown = Counter(name for _, name in RANGES)
    assert set(shown) == {"stoker.read", "stoker.decode", "stoker.augment", "end"}
    assert min(shown.values()) >= 61, "the loader may have begun a second batch"
    assert shown["end"] >= 3 * 61, "every range of a finished sample has ended"
    assert threading.get_native_id() not in {thread for thread, _ in RANGES}


def load(dataset: Any, **options: Any) -> ImageLoader:
    return ImageLoader(
        dataset, **image_arguments(batch_size=8, transforms=[Resize((4, 4))], columns=("row",), **options)
    )


def test_statistics_can_count_from_the_pass_or_the_last_call(thumbnails: Path) -> None:
    with load(thumbnails, rank=1, world_size=2) as loader:
        assert loader.stats("last").batches == 0
        list(loader)
        running = iter(loader)
        assert loader.stats("last").batches == 4
        next(running)
        assert [loader.stats(since).batches for since in ("start", "pass", "last", "last")] == [5, 1, 1, 0]
        stats = loader.stats("pass")
        assert (stats.rank, stats.world_size, stats.samples) == (1, 2, 8)
        assert stats.seconds < loader.stats().seconds
        assert sum(stats.producer.values()) <= sum(loader.stats().producer.values())
        list(running)
        assert loader.stats().ready >= 0
        with pytest.raises(ConfigError, match="since must be 'start', 'pass' or 'last', found 'epoch'"):
            loader.stats("epoch")  # type: ignore[arg-type]


def test_the_cache_of_a_remote_dataset_is_counted(thumbnails: Path, tmp_path: Path) -> None:
    fetched = []
    for _ in range(2):
        with load(f"file://{thumbnails}", cache=tmp_path / "cache") as loader:
            list(loader)
            counters = loader.stats().counters
            assert counters.cache_hits + counters.cache_misses > 0
            fetched.append((counters.bytes_fetched, counters.cache_misses))
    assert fetched[0][0] > 10_000
    assert fetched[0][1] > 0
    assert fetched[1] == (0, 0), "all was there"


@pytest.mark.usefixtures("short_pauses")
def test_retries_before_the_loader_was_made_do_not_count(
    thumbnails: Path, tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.put(f"{thumbnails}/", "/bucket/", recursive=True)
    read, failures = type(memory).cat_file, [TimeoutError] * 3

    def cat_file(self: Any, path: str, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(self, path, **options)

    monkeypatch.setattr(type(memory), "cat_file", cat_file)
    dataset = stoker.open("memory://bucket", cache=tmp_path / "cache")
    assert not failures
    with load(dataset) as loader:
        assert loader.stats().counters.retries == 0
        failures += [TimeoutError] * 2
        list(loader)
        assert loader.stats().counters.retries == 2


def test_a_loader_publishes_statistics_to_tensorboard_and_logging(
    thumbnails: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written: dict[str, Any] = {}
    writer = SimpleNamespace(add_scalar=lambda name, value, step: written.update({name: (value, step)}))
    with load(thumbnails) as loader:
        list(loader)
        loader.publish(writer, step=7)
        with caplog.at_level(logging.INFO, "train"):
            loader.publish(logging.getLogger("train"))
        with pytest.raises(ConfigError, match="cannot be published to str"):
            loader.publish("prometheus")
    assert written["stoker/samples"] == (61, 7)
    assert caplog.messages[0].startswith("rank 0 of 1: 61 samples, ")


def test_prometheus_reads_figures_when_it_asks(thumbnails: Path) -> None:
    client = pytest.importorskip("prometheus_client", reason="needs pip install prometheus-client")
    registry = client.CollectorRegistry()
    loader = load(thumbnails)
    loader.publish(registry)
    list(loader)
    assert registry.get_sample_value("stoker_samples", {"rank": "0"}) == 61
    loader.close()
    del loader
    assert registry.get_sample_value("stoker_samples", {"rank": "0"}) is None, "it was dropped"


def test_opentelemetry_reads_figures_when_it_exports(thumbnails: Path) -> None:
    metrics = pytest.importorskip("opentelemetry.sdk.metrics", reason="needs pip install opentelemetry-sdk")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    reader = export.InMemoryMetricReader()
    provider = metrics.MeterProvider([reader])
    with load(thumbnails) as loader:
        loader.publish(provider.get_meter("train"))
        list(loader)
        data = json.loads(reader.get_metrics_data().to_json())
    found = {one["name"]: one for one in data["resource_metrics"][0]["scope_metrics"][0]["metrics"]}
    assert found["stoker.samples"]["data"]["data_points"][0]["value"] == 61
    provider.shutdown()


def test_each_stage_is_a_range_of_nvtx(thumbnails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = set()

    @contextmanager
    def annotate(name: str, domain: str) -> Iterator[None]:
        shown.add((domain, name))
        yield

    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(annotate=annotate))  # type: ignore[arg-type]
    with load(thumbnails) as loader:
        list(loader)
    names = ("planning", "executing", "handing over", "copying", "waiting", "idle")
    assert {("stoker", f"stoker.{name}") for name in names} <= shown


def check_trace_format(document: Any) -> dict[str, list[dict[str, Any]]]:
    """Check a document by the rules of Perfetto's importer; returns events by track.

    The rules are in src/trace_processor/importers/json and importers/common/slice_tracker.cc, version 58.2.
    Times are rounded to nanoseconds. Stages of a track that overlap in part are an error.
    """
    assert set(document) == {"traceEvents", "displayTimeUnit", "baseTimeNanoseconds"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    names: dict[Any, str] = {}
    tracks: dict[str, list[dict[str, Any]]] = {}
    for event in document["traceEvents"]:
        assert [type(event[name]) for name in ("name", "pid", "tid")] == [str, int, int]
        if event["ph"] == "M":
            assert event["name"] == "thread_name"
            assert names.setdefault(event["tid"], event["args"]["name"]) == event["args"]["name"]
        else:
            assert event["ph"] == "X", "complete events alone"
            assert all(type(event[name]) is float and event[name] >= 0 for name in ("ts", "dur"))
            tracks.setdefault(names[event["tid"]], []).append(event)
    for events in tracks.values():
        open_until: list[int] = []
        for begin, duration in ((round(one["ts"] * 1000), round(one["dur"] * 1000)) for one in events):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or begin + duration <= open_until[-1], "events of a track nest, in order"
            open_until.append(begin + duration)
    return tracks


def test_a_trace_has_a_track_for_each_native_thread(thumbnails: Path, tmp_path: Path) -> None:
    with load(thumbnails, num_threads=2, prefetch=1) as loader, loader.trace(tmp_path / "trace.json"):
        for _ in range(2):
            list(loader)
    tracks = check_trace_format(json.loads((tmp_path / "trace.json").read_text()))
    native = {name: events for name, events in tracks.items() if name.startswith("stoker-native-")}
    counts = Counter(event["name"] for events in native.values() for event in events)
    assert 1 <= len(native) <= 2
    assert set(counts) == {"read", "decode", "augment"}
    assert min(counts.values()) >= 2 * 61
    (worker,) = tracks.keys() - native.keys() - {"MainThread"}
    assert {event["name"] for event in tracks["MainThread"]} == {"waiting"}
    assert {"planning", "executing", "handing over", "copying"} <= {one["name"] for one in tracks[worker]}
    with load(thumbnails) as loader:
        list(loader)
        with loader.trace(tmp_path / "empty.json"):
            pass
    left = check_trace_format(json.loads((tmp_path / "empty.json").read_text()))
    assert not any("native" in name for name in left), "nothing is recorded without a trace"
