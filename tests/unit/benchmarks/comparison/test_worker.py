"""The process of one peer: what it measures, and how it goes on in the middle of an epoch."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.benchmarks.comparison import parts
from stoker.benchmarks.comparison.bench import run_bench
from stoker.benchmarks.comparison.sources import open_source, write_numbered_images
from stoker.benchmarks.comparison.worker import PeerWorker, last_sentence
from stoker.benchmarks.peers.base import PeerSettings, PeerSource, Unsupported
from stoker.errors import ConfigError

SOURCE = PeerSource(Path(), "tfrecord", (), Path(), 6, False, Path())


class Peer:
    """A loader that returns one batch twice, on its own device."""

    packages = ()
    lead = 0

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def prepare(self, source: Any, settings: Any) -> tuple[str, ...]:
        return ()

    def epoch(self) -> Any:
        return iter([self.batch, self.batch])


def worker(name: str, batch: Any, device: str = "cpu", **options: Any) -> PeerWorker:
    peer = Peer(batch)
    vars(peer).update(options)
    made = PeerWorker(name, peer)
    made.do_prepare(SOURCE.to_json(), {"batch_size": 2, "size": 4, "device": device})
    return made


def test_batches_of_numpy_are_copied_to_a_device() -> None:
    torch = pytest.importorskip("torch")
    batch = np.ones((2, 3, 4, 4), np.float32)
    # No command returns the batches themselves, and a value of the device "meta" cannot be read.
    assert next(worker("tfdata", batch)._epoch()) is batch
    copied = next(worker("tfdata", batch, "meta")._epoch())  # a device of PyTorch that every machine has
    assert copied.device == torch.device("meta")
    own = torch.ones(2, 3, 4, 4)
    assert next(worker("torch", own, "meta")._epoch()) is own
    assert worker("torch", own).do_warm_up()["images"] == 4
    with pytest.raises(RuntimeError, match="expected contiguous"):
        worker("torch", own.permute(0, 1, 3, 2)).do_warm_up()


class CountingPeer:
    """A loader of six batches that writes a file, and saves its position where it is resumable."""

    packages = ()
    lead = 0

    def __init__(self) -> None:
        self.position = 0

    def prepare(self, source: Any, settings: Any) -> tuple[str, ...]:
        return ()

    def epoch(self) -> Any:
        while self.position < 6:
            self.position += 1
            yield np.full((1, 3, 2, 2), self.position, np.float32)
        self.position = 0

    def write(self, source: Any, settings: Any) -> None:
        (source.scratch / "folder").mkdir()
        (source.scratch / "folder" / "file").write_bytes(bytes(1000))


class ResumablePeer(CountingPeer):
    def state(self, scratch: Path) -> Any:
        return self.position

    def resume(self, state: Any) -> Any:
        self.position = state
        return self.epoch()


def test_files_that_a_loader_writes_are_timed_and_counted(tmp_path: Path) -> None:
    source = replace(SOURCE, scratch=tmp_path / "scratch")
    source.scratch.mkdir()
    found = PeerWorker("torch", ResumablePeer()).do_write(source.to_json(), {})
    assert found["written_bytes"] == 1000
    assert found["write_seconds"] > 0


def test_a_loader_without_boxes_is_left_out_of_a_recipe() -> None:
    with pytest.raises(Unsupported, match="no pipeline with boxes"):
        PeerWorker("tfdata-plain", CountingPeer()).do_write(SOURCE.to_json(), {"recipe": "coco-ssd"})


@pytest.mark.parametrize(("peer", "state"), [(CountingPeer, None), (ResumablePeer, 3)])
def test_a_loader_goes_on_from_its_state_or_makes_the_batches_again(peer: Any, state: Any) -> None:
    half = PeerWorker("torch", peer()).do_state(".", steps=3)
    assert (half["state"], len(half["seen"])) == (state, 3)
    resumed = peer()
    rest = PeerWorker("torch", resumed).do_resume(state, steps=3, rest=2)
    assert rest["resume_seconds"] >= 0
    assert len(rest["seen"]) == 2
    assert resumed.position == 5


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no such file", "no such file"),
        ("Caught in a worker.\nTraceback:\n  File x\nOSError: no space", "OSError: no space"),
        ("request failed: Error {\n    status: 403,\n}", "request failed: Error {"),
        ("", ""),
    ],
)
def test_the_reason_of_a_failure_is_one_line(text: str, shown: str) -> None:
    assert last_sentence(text) == shown


def test_the_memory_after_each_epoch_is_that_of_the_process() -> None:
    before, after = PeerWorker("torch", CountingPeer()).do_endure(epochs=2)["memory"]
    assert 1 << 20 < before <= after + (64 << 20)


def test_the_tokens_of_text_are_counted_with_and_without_padding() -> None:
    mask = np.array([[True, True, True], [True, False, False]])
    made = worker("stoker-text", (np.zeros((2, 3), np.int64), mask))
    made.do_warm_up()
    answer = made.do_turn(min_seconds=1e-9)
    assert (answer["images"], answer["tokens"], answer["slots"]) == (4, 8, 12)
    with pytest.raises(RuntimeError, match="expected int64 ids"):
        worker("stoker-text", (np.zeros((2, 3), np.int32), mask)).do_warm_up()


def test_published_workloads_have_uint8_batches_with_the_channels_last() -> None:
    batch = np.zeros((2, 4, 4, 3), np.uint8)
    with pytest.raises(RuntimeError, match="float32"):
        worker("ffcv-rn18", batch).do_warm_up()
    assert worker("ffcv-rn18", batch, uint8=True).do_warm_up()["images"] == 4


def test_copies_by_pytorch_are_noted() -> None:
    def notes(name: str, device: str) -> list[str]:
        made = PeerWorker(name, CountingPeer())
        return list(made.do_prepare(SOURCE.to_json(), {"device": device})["notes"])

    assert notes("tfdata-plain", "cuda:0") != []
    assert notes("tfdata-plain", "cpu") == []
    assert notes("stoker-dali", "cuda:0") == []


def test_a_gpu_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match="'cuda' was asked for and 0 GPUs are visible"):
        run_bench(tmp_path, ["torch"], device="cuda")


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
