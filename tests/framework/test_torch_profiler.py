"""Stages of a loader in the profiler of PyTorch, and in one trace with its events."""

from __future__ import annotations

import json
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from helpers import perfetto
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader
from stoker.augment import RandomResizedCrop
from stoker.errors import ConfigError
from stoker.pipeline.execution import stats

torch = pytest.importorskip("torch")

OPTIONS: dict[str, Any] = {"batch_size": 16, "transforms": [RandomResizedCrop(8)], "output": "torch"}
PYTHON_STAGES = {"planning", "fetching", "executing", "handing over", "copying", "waiting"}


@pytest.fixture
def loader(thumbnails: Path, tmp_path: Path) -> Any:
    remote = stoker.open(f"file://{thumbnails}", cache=tmp_path / "cache")
    with ImageLoader(remote, **image_arguments(engine="native", **OPTIONS)) as opened:
        yield opened


def test_the_profiler_shows_every_stage_of_pythons_threads(loader: ImageLoader) -> None:
    every = torch.profiler._ExperimentalConfig(profile_all_threads=True)
    with torch.profiler.profile(experimental_config=every) as profiler:
        list(loader)
    keys = {event.key for event in profiler.key_averages()}
    assert keys >= {f"stoker.{stage}" for stage in PYTHON_STAGES}


def test_one_trace_has_the_profilers_events_and_every_stage(loader: ImageLoader, tmp_path: Path) -> None:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with loader.trace(tmp_path / "trace.json", profiler=profiler), profiler:
        for batch in loader:
            batch.image.sum()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    found: dict[str, list[float]] = {}
    for event in events:
        if event["ph"] == "X":
            found.setdefault(event["name"], []).append(event["ts"])
    stages = PYTHON_STAGES | {"read", "decode", "augment"}
    assert found.keys() >= {"aten::sum", *(f"stoker.{stage}" for stage in stages)}
    theirs = found["aten::sum"][0]
    assert all(abs(ts - theirs) < 60e6 for name in stages for ts in found[f"stoker.{name}"]), "one clock"


def test_perfetto_shows_every_event(
    loader: ImageLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Perfetto drops a stage that overlaps another: rounded, or PyTorch's range of it by another clock."""
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    monkeypatch.setattr(stats, "time_ns", lambda: time_ns() + 100_000)
    with loader.trace(tmp_path / "trace.json", profiler=profiler), profiler:
        list(loader)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    errors, slices, tracks = perfetto.query(
        tmp_path / "trace.json",
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        "select count(*) as number from slice",
        "select distinct thread.name as name from thread join thread_track using (utid)",
    )
    assert errors == []
    assert slices == [{"number": sum(event["ph"] in "Xi" for event in events)}]
    assert {"stoker-native-0", "stoker-prefetch"} <= {track["name"] for track in tracks}


def test_a_profiler_of_another_kind_is_refused(loader: ImageLoader, tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"must be a torch\.profiler\.profile, found str"),
        loader.trace(tmp_path / "trace.json", profiler="torch"),
    ):
        pass
