"""The second half of an epoch, with samples that can be told apart after any crop."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.benchmarks.comparison import parts
from stoker.benchmarks.comparison.sources import open_source, write_numbered_images
from stoker.benchmarks.comparison.worker import PeerWorker
from stoker.benchmarks.peers.base import PeerSettings, PeerSource


def ready(source: dict[str, Any]) -> PeerWorker:
    worker = PeerWorker("stoker")
    worker.do_import()
    worker.do_prepare(source, asdict(PeerSettings(batch_size=16, size=32, resumable=True)))
    return worker


def test_stoker_goes_on_with_exactly_the_other_half(tmp_path: Path) -> None:
    write_numbered_images(tmp_path / "images", 64, height=48, width=64)
    stoker.convert(tmp_path / "images", tmp_path / "shards", storage=stoker.ImageStorage(shards=2))
    source = open_source(tmp_path / "shards", tmp_path).to_json()
    before = ready(source).do_state(str(tmp_path), steps=2)
    after = ready(source).do_resume(before["state"], steps=2, rest=2)
    assert len(before["seen"]) == 32
    assert sorted(before["seen"] + after["seen"]) == list(range(64))


def test_samples_that_come_again_or_not_at_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A loader of real data that repeats samples needs a library that may not be installed.
    answers = iter([{"state": None, "seen": [0, 1, 2, 3]}, {"resume_seconds": 0.5, "seen": [3, 4, 4, 6]}])
    monkeypatch.setattr(parts.PeerProcess, "ask", lambda *_, **__: next(answers))
    monkeypatch.setattr(parts.PeerProcess, "begin", lambda *_, **__: {})
    source = PeerSource(tmp_path, "tfrecord", (), tmp_path, 8, raw=False, scratch=tmp_path)
    found = parts.resumed(source, "stoker", batch_size=2)
    assert found == {"seconds": 0.5, "saves_state": False, "repeated": 2, "omitted": 2}
