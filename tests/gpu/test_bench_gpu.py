"""The comparison of loaders whose batches are wanted on a GPU."""

from __future__ import annotations

from pathlib import Path

from helpers.gpu_device import DEVICE, ON_GPU

from stoker.benchmarks.comparison.bench import run_bench


def test_both_engines_and_every_installed_loader_hand_out_batches(dataset: Path) -> None:
    found = run_bench(
        dataset,
        ["all"] if ON_GPU else ["dali"],
        engines=("stoker", "stoker-dali"),
        rounds=1,
        batch_size=16,
        size=64,
        min_seconds=0.01,
        device="cuda" if ON_GPU else "cpu",
    )
    assert {peer.name: peer.missing for peer in found.peers if peer.name.startswith("stoker")} == {
        "stoker": "",
        "stoker-dali": "",
    }
    assert found.settings["device"] == DEVICE
