"""Statistics by window, with what the cache did, and their way to monitors."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader
from stoker.augment import Resize
from stoker.errors import ConfigError


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
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        if event["ph"] == "M":
            assert event["name"] == "thread_name"
            assert names.setdefault(event["tid"], event["args"]["name"]) == event["args"]["name"]
            continue
        assert event["ph"] == "X", "complete events alone"
        assert all(type(event[name]) is float and event[name] >= 0 for name in ("ts", "dur"))
        tracks.setdefault(names[event["tid"]], []).append(event)
    for events in tracks.values():
        open_until: list[int] = []
        for event in events:
            begin, duration = round(event["ts"] * 1000), round(event["dur"] * 1000)
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
