import hashlib
from pathlib import Path

import pytest
from PIL import Image

from stoker.benchmarks.comparison import workloads
from stoker.benchmarks.images.overlap import Overlap
from stoker.benchmarks.report.goals import Goal
from stoker.errors import SourceError

PHOTOGRAPHS = Path(__file__).parents[4] / "examples" / "photos" / "val"


def test_replicas_have_names_and_files_of_their_own(tmp_path):
    workloads.replicate(PHOTOGRAPHS, tmp_path, 60)
    files = workloads.photographs_in(tmp_path)
    assert len(files) == 60
    assert len({path.stat().st_ino for path in files}) == 60
    assert len({hashlib.sha256(path.read_bytes()).digest() for path in files}) == 48


def test_a_folder_without_photographs(tmp_path):
    with pytest.raises(SourceError, match="no photographs"):
        workloads.photographs_in(tmp_path)


def test_enlarged_photographs_have_the_pixels_asked_for(tmp_path):
    workloads.enlarge(PHOTOGRAPHS, tmp_path, count=2, megapixels=1)
    files = workloads.photographs_in(tmp_path)
    assert len(files) == 2
    for path in files:
        with Image.open(path) as image:
            assert image.width * image.height == pytest.approx(1e6, rel=0.01)


def test_a_dataset_is_made_once(tmp_path):
    workload = workloads.Workload("tiny", "Tiny", copies=50, least=1.0)
    folder = workloads.make_dataset(workload, PHOTOGRAPHS, tmp_path)
    made = (folder / "dataset.json").stat().st_mtime_ns
    assert workloads.make_dataset(workload, PHOTOGRAPHS, tmp_path) == folder
    assert (folder / "dataset.json").stat().st_mtime_ns == made


def test_goals_know_their_direction():
    assert Goal("speed", 1.8, 1.8).met
    assert not Goal("speed", 1.8, 1.79).met
    assert Goal("time", 0.05, 0.05, at_most=True).met
    assert not Goal("time", 0.05, 0.051, at_most=True).met


def test_overlap_is_measured_against_the_longer():
    assert Overlap(10, loading=2.0, stepping=1.0, both=2.2, waited_share=0.0).ratio == pytest.approx(1.1)
    assert Overlap(10, loading=1.0, stepping=2.0, both=2.2, waited_share=0.0).ratio == pytest.approx(1.1)
