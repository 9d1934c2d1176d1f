"""The loaders of the comparison, each with its own library, on photographs that ship with the project."""

import importlib.util
from pathlib import Path

import pytest

import stoker
from stoker.benchmarks.comparison.bench import run_bench

PHOTOGRAPHS = Path(__file__).parents[2] / "examples" / "photos" / "val"
LIBRARIES = {"torch": "torch", "tfdata-plain": "tensorflow", "dali": "nvidia", "stoker-dali": "nvidia"}
INSTALLED = [name for name, library in LIBRARIES.items() if importlib.util.find_spec(library)]


@pytest.mark.skipif(not INSTALLED, reason="none of the libraries is installed")
def test_every_installed_loader_reads_raw_pixels(tmp_path: Path) -> None:
    folder = tmp_path / "val"
    stoker.convert(PHOTOGRAPHS, folder, encoding="raw", storage=stoker.ImageStorage(shards=2))
    found = run_bench(
        folder, INSTALLED, rounds=1, batch_size=8, num_threads=1, size=32, min_seconds=0.01, engines=()
    )
    assert {peer.name: peer.missing for peer in found.peers} == dict.fromkeys(INSTALLED, "")


@pytest.mark.skipif(not INSTALLED, reason="none of the libraries is installed")
def test_all_compares_every_loader_that_is_installed(tmp_path: Path) -> None:
    folder = tmp_path / "val"
    stoker.convert(PHOTOGRAPHS, folder, storage=stoker.ImageStorage(shards=2))
    found = run_bench(
        folder, ["all"], rounds=1, batch_size=8, num_threads=1, size=32, min_seconds=0.01, device="cpu"
    )
    names = [peer.name for peer in found.peers]
    assert names[0] == "stoker"
    assert {name for name in LIBRARIES if name != "stoker-dali"} & set(INSTALLED) <= set(names)
    assert {peer.missing for peer in found.peers} == {""}, "every loader does the work"
    assert found.settings["device"] == "cpu"
