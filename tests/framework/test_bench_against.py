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
@pytest.mark.parametrize("encoding", ["keep", "raw"])
def test_every_installed_loader_does_the_work(tmp_path, encoding):
    folder = tmp_path / "val"
    stoker.convert(PHOTOGRAPHS, folder, shards=2, encoding=encoding)
    found = run_bench(
        folder, INSTALLED, rounds=1, batch_size=8, num_threads=1, size=32, min_seconds=0.01, own=()
    )
    assert {peer.name: peer.missing for peer in found.peers} == dict.fromkeys(INSTALLED, "")
