"""Photographs of the comparisons, made of the examples."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stoker.benchmarks.comparison import photographs
from stoker.benchmarks.comparison.sources import Workload, make_dataset
from stoker.errors import SourceError

PHOTOGRAPHS = Path(__file__).parents[4] / "examples" / "photos" / "val"


def test_copies_have_different_names_and_files(tmp_path):
    photographs.replicate(PHOTOGRAPHS, tmp_path, 60)
    files = photographs.photographs_in(tmp_path)
    assert len(files) == 60
    assert len({path.stat().st_ino for path in files}) == 60
    assert len({hashlib.sha256(path.read_bytes()).digest() for path in files}) == 48


def test_a_folder_without_photographs_is_refused(tmp_path):
    with pytest.raises(SourceError, match="no photographs"):
        photographs.photographs_in(tmp_path)


def test_photographs_of_imagenets_kind_have_its_size_quality_and_bytes(tmp_path):
    photographs.make_imagenet_like(PHOTOGRAPHS, tmp_path)
    files = photographs.photographs_in(tmp_path)
    assert len(files) == 48
    assert np.mean([path.stat().st_size for path in files]) == pytest.approx(110_000, rel=0.1)
    for path in files:
        with Image.open(path) as image:
            assert max(image.size) == 500
            # The first entries of libjpeg's tables at quality 96 (jcparam.c).
            assert [table[0] for table in image.quantization.values()] == [1, 1]
            assert [layer[1:3] for layer in image.layer] == [(1, 1)] * 3


def test_a_dataset_is_made_once(tmp_path):
    workload = Workload("tiny", "Tiny", copies=50)
    folder = make_dataset(workload, PHOTOGRAPHS, tmp_path)
    made = (folder / "dataset.json").stat().st_mtime_ns
    assert make_dataset(workload, PHOTOGRAPHS, tmp_path) == folder
    assert (folder / "dataset.json").stat().st_mtime_ns == made
