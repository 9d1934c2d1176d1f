"""The stages of a loader's work, in statistics and in traces."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker import ImageLoader
from stoker.augment import RandomResizedCrop
from stoker.pipeline.execution.stats import StageTimes, Trace, traced


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
        monkeypatch.setitem(
            sys.modules, "torch.autograd.profiler", SimpleNamespace(_is_profiler_enabled=enabled)
        )
        with StageTimes().stage("planning"):
            shown.append("work")
    alone = ["stoker stoker.planning", "work", "stoker ends"]
    assert shown[:3] == alone
    assert shown[3:] == [
        "stoker stoker.planning",
        "torch stoker.planning",
        "work",
        "torch ends",
        "stoker ends",
    ]


def test_a_trace_holds_a_bounded_number_of_events(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace.json", most=2)
    for number in range(5):
        trace.add("planning", number, number + 1)
    trace.write()
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) == 1 + 2


def test_a_trace_of_a_loader_shows_its_threads(thumbnails: Path, tmp_path: Path) -> None:
    with ImageLoader(thumbnails, batch_size=16, transforms=[RandomResizedCrop(8)]) as loader:
        with loader.trace(tmp_path / "trace.json"):
            assert len(list(loader)) == 4
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    stages: dict[str, list[str]] = {}
    for event in events:
        if event["ph"] == "X":
            stages.setdefault(tracks[event["tid"]], []).append(event["name"])
    consumer = stages.pop("MainThread")
    assert set(consumer) == {"waiting"}
    assert len(consumer) == 5  # four batches, and the end of the pass
    (worker,) = [names for track, names in stages.items() if not track.startswith("stoker-native")]
    assert [worker.count(name) for name in ("executing", "handing over", "copying")] >= [4, 4, 4]
    assert worker.count("planning") >= 5
