"""Tests of the simulation of storage with latency, against values by hand, and of synthetic datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stoker
from stoker.benchmarks.storage.model import Data, Storage, measure, simulate
from stoker.benchmarks.storage.scale import measure_order, measure_reading
from stoker.benchmarks.storage.synthetic import make_dataset
from stoker.formats.remote.block_files import BLOCK_BYTES

ONE_BLOCK = Data(BLOCK_BYTES, 1 << 40)
FAST = 1e15  # bytes per second


def batches(count: int, size: int = 1) -> list[np.ndarray]:
    """Return batches of samples that are far apart, so that each takes one request."""
    return [np.arange(size) * 1000 + i * 1_000_000 for i in range(count)]


def test_one_batch_ahead_waits_for_each_answer() -> None:
    # Batch i + 1 is requested when batch i is done: each takes a latency and a step.
    stall = simulate(batches(50), ONE_BLOCK, Storage(0.1, 8, FAST), 0.1, depth=1)
    assert stall == pytest.approx(0.5)


def test_enough_batches_ahead_leave_no_waiting() -> None:
    assert simulate(batches(100), ONE_BLOCK, Storage(0.1, 64, FAST), 0.1, depth=64) == 0


def test_too_few_connections_are_the_limit() -> None:
    # A batch has eight requests, two in flight: it takes four latencies at any depth.
    stall = simulate(batches(200, 8), ONE_BLOCK, Storage(0.1, 2, FAST), 0.1, depth=16)
    assert stall == pytest.approx(0.75, abs=0.01)


def test_the_link_is_the_limit() -> None:
    rate = BLOCK_BYTES / 0.2  # a batch takes twice a step
    stall = simulate(batches(100), ONE_BLOCK, Storage(0.0, 64, rate), 0.1, depth=16)
    assert stall == pytest.approx(0.5, abs=0.01)


def test_neighbours_are_fetched_once_and_in_one_request() -> None:
    # One connection and 32 blocks per request take less than a latency per batch.
    rows = np.arange(6400).reshape(400, 16)
    data = Data(BLOCK_BYTES // 16, 1 << 40)
    assert simulate(list(rows), data, Storage(0.1, 1, FAST), 0.1, depth=16) == pytest.approx(0, abs=1e-6)
    again = [*rows[:50], *rows[:50]]
    assert simulate(again, data, Storage(0.1, 1, FAST), 0.01, depth=16) < 0.5


def test_samples_lie_in_the_blocks_of_their_bytes() -> None:
    data = Data(3 * BLOCK_BYTES // 2, 3 * BLOCK_BYTES)  # two samples and three blocks in a shard
    assert data.blocks(np.array([0])).tolist() == [0, 1]
    assert data.blocks(np.array([1, 0])).tolist() == [0, 1, 2]
    assert data.blocks(np.array([2])).tolist() == [5, 6]


def test_a_measured_stall_is_a_share_of_the_time() -> None:
    rows = [np.arange(i * 8, i * 8 + 8) for i in range(12)]
    data = Data(30_000, 3_000_000)
    stall = measure(rows, data, Storage(0.02, 8), 0.005, depth=1)
    assert 0 < stall < 1


def test_a_synthetic_dataset_is_read_as_zeros(tmp_path: Path) -> None:
    dataset = stoker.open(make_dataset(tmp_path / "holes", 1000, 3000, 300_000))
    assert len(dataset) == 1000
    assert len(dataset.data_files) == 10
    assert dataset.keys([0, 999]) == ["samples/000000000000.jpg", "samples/000000000999.jpg"]
    assert dataset.read(999) == bytes(3000)


def test_figures_of_orders_and_of_reading_have_all_columns() -> None:
    (full, blocks) = measure_order(samples=100_000, ranks=4)
    assert (full["order"], blocks["order"]) == ("FullShuffle", "BlockShuffle")
    assert full["bytes"] < 1 << 20
    found = measure_reading(samples=100_000_000, ranks=16, steps=5)
    assert len(found) == 16
    assert all(0 <= stall <= 1 for row in found for stall in row["stall"].values())
