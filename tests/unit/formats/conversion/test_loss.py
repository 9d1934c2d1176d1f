"""A conversion that would leave too much out publishes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.annotations import document, write, write_coco_images
from helpers.command_line import run
from helpers.options import convert_options
from helpers.processes import full_disk

import stoker
from stoker.errors import ConfigError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A COCO file of four images and four objects."""
    write_coco_images(tmp_path)
    write(tmp_path, document())
    return tmp_path


def convert(folder: Path, **options: Any) -> stoker.Dataset:
    stoker.convert(
        folder / "instances.json", folder / "out", **convert_options({"images": folder / "images", **options})
    )
    return stoker.open(folder / "out")


def test_the_command_refuses_a_source_whose_images_are_missing_unless_the_loss_is_allowed(
    folder: Path,
) -> None:
    for name in ("b.png", "tiny.png", "empty.png"):
        (folder / "images" / name).unlink()
    command = ["convert", folder / "instances.json", folder / "out", "--images", folder / "images"]
    with pytest.raises(SourceError) as refused:
        run(*command)
    text = str(refused.value)
    assert "3 of 5 images and objects would be left out, more than 1%: 3 x unreadable" in text
    assert "allow_loss=0.6" in text
    assert "On the command line: --allow-loss" in text
    assert not (folder / "out").exists()
    run(*command, "--allow-loss", "60%")
    assert stoker.open(folder / "out").keys([0]) == ["a.png"]


def test_shards_of_a_refused_conversion_are_published_once_the_loss_is_allowed(folder: Path) -> None:
    (folder / "images" / "a.png").write_bytes((folder / "images" / "a.png").read_bytes()[:40])
    with pytest.raises(SourceError, match=r"1 of 8 images and objects would be left out, more than 12\.4%"):
        convert(folder, allow_loss="12.4%")
    assert not (folder / "out" / "dataset.json").exists()
    with full_disk():  # no shard is written again
        assert len(convert(folder, allow_loss=0.125)) == 3


def test_a_folder_of_classes_may_lose_any_share_by_default(tmp_path: Path, make_jpeg: Any) -> None:
    (tmp_path / "src" / "cat").mkdir(parents=True)
    for number in range(3):
        (tmp_path / "src" / "cat" / f"{number}.jpg").write_bytes(make_jpeg(number)[: None if number else 200])
    with pytest.raises(SourceError, match="1 of 3 images and objects"):
        stoker.convert(tmp_path / "src", tmp_path / "out", selection=stoker.Selection(allow_loss=0.1))
    stoker.convert(tmp_path / "src", tmp_path / "out")


@pytest.mark.parametrize("value", ["some", "101%", -0.1, 2, "1/0"])
def test_an_allowed_loss_that_is_no_share_is_refused(folder: Path, value: Any) -> None:
    with pytest.raises(ConfigError, match="allow_loss must be a share"):
        convert(folder, allow_loss=value)
