"""What a measurement of a loader counts, and the loaders that are measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from stoker.benchmarks.comparison.usage import Usage
from stoker.benchmarks.gpu import loaders
from stoker.benchmarks.gpu.context import Context
from stoker.benchmarks.gpu.loaders import EndlessShuffle, own_loader
from stoker.benchmarks.gpu.programs import training
from stoker.benchmarks.gpu.programs.faults import growth
from stoker.benchmarks.gpu.programs.training import measure
from stoker.benchmarks.gpu.runner import write_json

LABELS = np.zeros(8)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A context in which the smoke test has passed and 12 threads decoded best."""
    row = {"region": False, "load": 1.0, "threads": 12, "images_per_second": 9000.0}
    steps = {"smoke full 1": {"found": {"passed": True}}, "decode": {"found": {"decode": [row]}}}
    write_json(tmp_path / "results.json", {"steps": steps})
    return Context("cpu", "tiny", tmp_path, tmp_path, tmp_path / "results.json")


class Batches:
    """Endless batches; each takes a second of CPU time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        monkeypatch.setattr(training, "usage_of_tree", lambda _: Usage(float(self.taken), 0))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for self.taken in count(1):
            yield None, LABELS


@pytest.mark.parametrize("together", [1, 4])
def test_the_warm_up_does_not_count(context: Context, monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    batches = Batches(monkeypatch)
    found = measure(context, iter(batches), lambda *_: None, together)
    counted = found.images / len(LABELS)
    assert counted >= 1
    assert found.cpu_seconds == counted < batches.taken
    assert found.gpu == {}


def test_batches_that_workers_finish_together_are_counted_together(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = Batches(monkeypatch)
    found = measure(context, iter(batches), lambda *_: None, 16)
    assert found.images % (16 * len(LABELS)) == 0
    assert batches.taken - found.images // len(LABELS) >= 2 * 16


def test_a_sampler_without_end_shuffles_each_pass() -> None:
    drawn = list(islice(EndlessShuffle(50), 150))
    passes = [drawn[start : start + 50] for start in (0, 50, 100)]
    assert all(sorted(one) == list(range(50)) for one in passes)
    assert passes[0] != passes[1] != passes[2]


def test_a_loader_has_the_threads_and_the_way_that_decoded_best(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(loaders.stoker, "ImageLoader", lambda dataset, **options: made.append(options))
    own_loader(context, Path("dataset"), "dali")
    own_loader(context, Path("dataset"), "native", normalise=False)
    assert made[0]["num_threads"] == 12
    assert made[0]["engine"].hw_decoder_load == 1.0
    assert made[1]["num_threads"] is None
    assert [options["dtype"] for options in made] == ["bfloat16", "uint8"]


@pytest.mark.parametrize(
    ("values", "grown"), [([5.0], 0), ([1.0, 9.0, 9.0, 9.0], 0), ([1.0, 5.0, 6.0, 7.0, 9.0, 12.0], 6)]
)
def test_growth_is_that_after_all_sizes_were_met(values: list[float], grown: float) -> None:
    assert growth(values) == grown
