import hashlib
from pathlib import Path

import pytest
from PIL import Image

from stoker.benchmarks.comparison import workloads
from stoker.errors import SourceError

PHOTOGRAPHS = Path(__file__).parents[4] / "examples" / "photos" / "val"


def test_copies_have_different_names_and_files(tmp_path):
    workloads.replicate(PHOTOGRAPHS, tmp_path, 60)
    files = workloads.photographs_in(tmp_path)
    assert len(files) == 60
    assert len({path.stat().st_ino for path in files}) == 60
    assert len({hashlib.sha256(path.read_bytes()).digest() for path in files}) == 48


def test_a_folder_without_photographs(tmp_path):
    with pytest.raises(SourceError, match="no photographs"):
        workloads.photographs_in(tmp_path)


def test_enlarged_photographs_have_the_requested_pixels(tmp_path):
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
