"""The process of one peer: batches on the device of the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stoker.benchmarks.comparison.bench import run_bench
from stoker.benchmarks.comparison.worker import PeerWorker
from stoker.benchmarks.peers.base import PeerSettings
from stoker.errors import ConfigError
from stoker.pipeline.engines.selection import devices

if TYPE_CHECKING:
    from pathlib import Path


class Peer:
    """A loader that hands out one batch twice, where it lies."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def epoch(self) -> Any:
        return iter([self.batch, self.batch])


def worker(name: str, batch: Any, device: str) -> PeerWorker:
    made = PeerWorker(name)
    made._peer = Peer(batch)  # type: ignore[assignment]  # only its batches are needed
    made._settings = PeerSettings(batch_size=2, size=4, device=device)
    return made


def test_batches_of_numpy_are_copied_to_a_device() -> None:
    torch = pytest.importorskip("torch")
    batch = np.ones((2, 3, 4, 4), np.float32)
    assert next(worker("tfdata", batch, "cpu")._epoch()) is batch
    copied = next(worker("tfdata", batch, "meta")._epoch())  # a device of PyTorch that every machine has
    assert copied.device == torch.device("meta")
    own = torch.ones(2, 3, 4, 4)
    assert next(worker("torch", own, "meta")._epoch()) is own
    worker("torch", own, "meta")._check(own)
    with pytest.raises(RuntimeError, match="expected contiguous"):
        worker("torch", own, "meta")._check(own.permute(0, 1, 3, 2))


def test_copies_by_pytorch_are_noted() -> None:
    batch = np.ones((2, 3, 4, 4), np.float32)
    assert worker("tfdata-plain", batch, "cuda:0")._copied() != []
    assert worker("tfdata-plain", batch, "cpu")._copied() == []
    assert worker("stoker-dali", batch, "cuda:0")._copied() == []


def test_a_gpu_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpu_count", lambda: 0)
    with pytest.raises(ConfigError, match="'cuda' was asked for and 0 GPUs are visible"):
        run_bench(tmp_path, ["torch"], device="cuda")
