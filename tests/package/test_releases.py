"""Datasets, states and recipes of earlier releases, which later ones read, as docs/stability.md says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets import LOADERS, digest, make_loader

import stoker

RELEASES = sorted((Path(__file__).resolve().parents[1] / "data/releases").iterdir())
DATASETS = ("images", "images-lmdb", "objects", "texts")


@pytest.fixture(params=RELEASES, ids=lambda folder: str(folder.name))
def release(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_goes_on_from_the_state_of_an_earlier_release(release: Path, name: str) -> None:
    kept = json.loads((release / "loaders.json").read_text())[name]
    with make_loader(release, name) as loader:
        loader.load_state_dict(kept["state"])
        found = [digest(batch) for batch in loader]
        found.append(digest(next(iter(loader))))
    assert found == kept["batches"]


@pytest.mark.parametrize("name", DATASETS)
def test_verify_finds_no_damage_in_a_dataset_of_an_earlier_release(release: Path, name: str) -> None:
    report = stoker.verify(release / name, decode=name != "texts")
    assert report.ok, report


def test_a_dataset_of_an_earlier_release_grows(release: Path, tmp_path: Path) -> None:
    shutil.copytree(release / "images", tmp_path / "images")
    before = len(stoker.open(tmp_path / "images"))
    with stoker.Writer(tmp_path / "images", append=True) as writer:
        writer.write(np.zeros((8, 8, 3), np.uint8), label="cat", key="new")
    assert len(stoker.open(tmp_path / "images")) == before + 1
