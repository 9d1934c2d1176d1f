"""Datasets of the workloads."""

from pathlib import Path

from stoker.benchmarks.comparison import sources as workloads

PHOTOGRAPHS = Path(__file__).parents[4] / "examples" / "photos" / "val"


def test_a_dataset_is_made_once(tmp_path):
    workload = workloads.Workload("tiny", "Tiny", copies=50, least=1.0)
    folder = workloads.make_dataset(workload, PHOTOGRAPHS, tmp_path)
    made = (folder / "dataset.json").stat().st_mtime_ns
    assert workloads.make_dataset(workload, PHOTOGRAPHS, tmp_path) == folder
    assert (folder / "dataset.json").stat().st_mtime_ns == made
