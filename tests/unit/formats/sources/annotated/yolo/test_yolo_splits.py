"""Tests of a ``data.yaml`` of Ultralytics or Roboflow, which becomes a dataset for each of its splits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import stoker
from stoker.errors import ConfigError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

NAMES = "names: [person, car]\n"


def _images(folder: Path, names: str, labels: Path | None = None) -> None:
    """Write an image for each letter of ``names``, with an object of class 0 and class 1 in turn."""
    labels = labels or Path(str(folder).replace("images", "labels"))
    for number, name in enumerate(names):
        for directory in (folder, labels):
            directory.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(folder / f"{name}.png")
        (labels / f"{name}.txt").write_text(f"{number % 2} 0.5 0.5 0.5 0.5\n")


def _convert(file: Path, **options: Any) -> dict[str, list[str]]:
    """Convert a source, check that each image of each split has its object, and return the keys by split."""
    summary = stoker.convert(file, file.parent / "shards", **options)
    found = {}
    for split, folder in summary.datasets.items():
        assert folder == file.parent / "shards" / split
        dataset = stoker.open(folder)
        assert dataset.classes == ("person", "car")
        assert len(dataset.annotations(range(len(dataset)))) == len(dataset)
        found[split] = dataset.keys(range(len(dataset)))
    assert summary.written == sum(map(len, found.values()))
    return found


def test_paths_of_roboflow_start_at_a_folder_below_the_file(tmp_path: Path) -> None:
    for split, names in (("train", "ab"), ("valid", "c"), ("test", "d")):
        _images(tmp_path / split / "images", names)
    (tmp_path / "data.yaml").write_text(
        f"train: ../train/images\nval: ../valid/images\ntest: ../test/images\nnc: 2\n{NAMES}"
    )
    found = {
        "train": ["train/images/a.png", "train/images/b.png"],
        "val": ["valid/images/c.png"],
        "test": ["test/images/d.png"],
    }
    assert _convert(tmp_path / "data.yaml") == found


def test_a_split_may_be_several_folders_or_a_list_below_path(tmp_path: Path) -> None:
    _images(tmp_path / "set" / "images" / "one", "ab")
    _images(tmp_path / "set" / "images" / "two", "c")
    _images(tmp_path / "elsewhere", "d", tmp_path / "elsewhere")
    (tmp_path / "set" / "val.txt").write_text("./images/one/b.png\n\nimages/two/c.png\n")
    (tmp_path / "coco8.yml").write_text(
        f"path: set\ntrain: [images/one, images/two]\nval: val.txt\ntest: {tmp_path}/elsewhere\n{NAMES}"
    )
    assert _convert(tmp_path / "coco8.yml") == {
        "train": ["set/images/one/a.png", "set/images/one/b.png", "set/images/two/c.png"],
        "val": ["set/images/one/b.png", "set/images/two/c.png"],
        "test": ["elsewhere/d.png"],
    }


def test_labels_without_an_image_are_counted(tmp_path: Path) -> None:
    _images(tmp_path / "images", "ab")
    (tmp_path / "labels" / "gone.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    (tmp_path / "data.yaml").write_text(f"train: images\ntest:\n{NAMES}")
    with pytest.raises(SourceError, match="labels without an image"):
        _convert(tmp_path / "data.yaml")
    assert _convert(tmp_path / "data.yaml", allow_loss=1) == {"train": ["images/a.png", "images/b.png"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"train: gone\n{NAMES}", "train names 'gone', which is not there"),
        ("train: images\n", "no names of classes"),
        (NAMES, "it names no images"),
        (f"train: {{a: b}}\n{NAMES}", "the numbers of train must count from 0"),
        (f'train: "a\\0b"\n{NAMES}', "must be paths"),
        (f"train: {'x' * 5000}\n{NAMES}", "which is not there"),
        (f"train: empty\n{NAMES}", "train holds no image"),
    ],
)
def test_a_data_yaml_that_cannot_be_used_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    _images(tmp_path / "images", "a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "data.yaml").write_text(content)
    with pytest.raises(SourceError, match=message):
        _convert(tmp_path / "data.yaml")


def test_options_that_do_not_fit_splits_are_refused(tmp_path: Path) -> None:
    _images(tmp_path / "images", "ab")
    (tmp_path / "data.yaml").write_text(f"train: images\n{NAMES}")
    with pytest.raises(ConfigError, match="val and test divide a source"):
        _convert(tmp_path / "data.yaml", val=0.5)
    shutil.copytree(tmp_path / "images", tmp_path / "train")
    (tmp_path / "among.yaml").write_text(f"train: train\n{NAMES}")
    with pytest.raises(ConfigError, match="images of the source lie in the target"):
        stoker.convert(tmp_path / "among.yaml", tmp_path)
    _convert(tmp_path / "data.yaml")
    with pytest.raises(ConfigError, match="append adds one source"):
        stoker.append(tmp_path / "shards" / "train", tmp_path / "data.yaml")
