"""``stoker.Writer(..., append=True)``: the next version of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import noise
from helpers.options import image_writer

import stoker
from stoker.augment import Resize
from stoker.errors import CheckpointError, ConfigError, DatasetError, LockedError
from stoker.formats.dataset.versions import read_versions
from stoker.formats.remote.stage import stage

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def write(target: Path, numbers: range, **options: Any) -> None:
    with image_writer(target, **{"shard_records": 3, **options}) as writer:
        for i in numbers:
            writer.write(
                noise(i),
                label=("cat", "dog")[i % 2],
                number=i,
                text=f"t{i}",
                vector=np.arange(i % 3 + 1, dtype=np.float32),
                boxes=[[0, 0, 4, 4]] * (i % 3),
                box_labels=[1] * (i % 3),
                keypoints=np.ones((i % 3, 2, 3)),
                masks=[[[0, 0, 4, 0, 4, 4]]] * (i % 3),
                segmentation=np.full((6, 8), i, np.uint8),
            )


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_each_append_is_a_version_with_the_samples_before_and_its_own(tmp_path: Path, container: str) -> None:
    target = tmp_path / "out"
    write(target, range(4), classes=["cat", "dog"], format=container, append=True)
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    write(target, range(4, 9), append=True)
    write(target, range(9, 11), append=True)
    dataset = stoker.open(target)
    assert dataset.column("number").tolist() == list(range(11))
    assert dataset.labels.tolist() == [i % 2 for i in range(11)]
    assert dataset.keys(range(11)) == [f"{i:08d}" for i in range(11)]
    vectors = [dataset.array("vector", i).tolist() for i in range(11)]
    assert vectors == [list(range(i % 3 + 1)) for i in range(11)]
    objects = np.bincount(dataset.annotations(range(11)).owner, minlength=11)
    assert objects.tolist() == [i % 3 for i in range(11)]
    changes = [(version.change, version.samples, version.added) for version in read_versions(target)]
    assert changes == [("writer", 4, 4), ("append by a writer", 9, 5), ("append by a writer", 11, 2)]
    assert stoker.verify(target, decode=True).ok
    changed = {path.name for path, content in before.items() if path.read_bytes() != content}
    assert changed == {"dataset.json", "sha256.json"}, "shards and the first index stay as they are"


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_appended_samples_are_loaded_and_staged(tmp_path: Path, container: str) -> None:
    write(tmp_path / "out", range(4), classes=["cat", "dog"], format=container)
    write(tmp_path / "out", range(4, 11), append=True)
    dataset = stoker.open(tmp_path / "out")
    columns = ("image", "number", "vector", "segmentation", "boxes", "keypoints", "masks")
    with stoker.ImageLoader(dataset, batch_size=11, columns=columns, transforms=[Resize((6, 8))]) as loader:
        (batch,) = loader
    assert [np.unique(mask).tolist() for mask in batch.segmentation] == [[i] for i in range(11)]
    stage(tmp_path / "out", tmp_path / "staged")
    assert stoker.verify(tmp_path / "staged").ok
    assert stoker.open(tmp_path / "staged").fingerprint == dataset.fingerprint


def test_a_writer_appends_to_a_conversion_and_adds_classes(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "out")
    first = stoker.open(tmp_path / "out")
    with stoker.Writer(tmp_path / "out", append=True, classes=[*first.classes, "fox"]) as writer:
        writer.write(noise(0), label="fox", key="fox/0")
        writer.write(noise(1), label="cat", key="cat/new")
    grown = stoker.open(tmp_path / "out")
    assert grown.classes == ("cat", "dog", "eel", "fox")
    assert (grown.labels[-2:].tolist(), grown.keys([30, 31])) == ([3, 0], ["fox/0", "cat/new"])
    assert len(first) == 30
    assert first.read(0) == grown.read(0), "a dataset that is open stays as it was"


def test_appended_samples_do_not_take_the_keys_of_excluded_ones(tmp_path: Path) -> None:
    write(tmp_path / "out", range(4), classes=["cat", "dog"])
    stoker.remove(tmp_path / "out", keys=["00000001"])
    write(tmp_path / "out", range(4, 6), append=True)
    assert stoker.open(tmp_path / "out").keys([2, 3, 4]) == ["00000003", "00000004", "00000005"]


def test_the_state_of_a_loader_loads_its_version_again(tmp_path: Path) -> None:
    write(tmp_path / "out", range(4), classes=["cat", "dog"])
    options: dict[str, Any] = {"batch_size": 2, "columns": ("number",), "transforms": [Resize((6, 8))]}
    with stoker.ImageLoader(tmp_path / "out", **options) as loader:
        next(iter(loader))
        state = loader.state_dict()
    write(tmp_path / "out", range(4, 6), append=True)
    with (
        stoker.ImageLoader(stoker.open(tmp_path / "out"), **options) as loader,
        pytest.raises(CheckpointError, match="the state is of version 1"),
    ):
        loader.load_state_dict(state)
    with stoker.ImageLoader(tmp_path / "out", **options) as loader:
        loader.load_state_dict(state)
        assert [batch.number.tolist() for batch in loader] == [[2, 3]]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A dataset of one sample with a label and a number."""
    with stoker.Writer(tmp_path / "out", classes=["cat", "dog"]) as writer:
        writer.write(noise(0), label="cat", number=1)
    return tmp_path / "out"


def test_options_that_contradict_the_dataset_are_refused(target: Path) -> None:
    with pytest.raises(ConfigError, match="classes do not begin with the 2 of the dataset"):
        stoker.Writer(target, append=True, classes=["dog", "cat"])
    with pytest.raises(ConfigError, match="append and overwrite contradict"):
        stoker.Writer(target, append=True, overwrite=True)


def test_samples_of_another_form_than_the_dataset_are_refused(target: Path) -> None:
    before = (target / "dataset.json").read_bytes()
    with stoker.Writer(target, append=True) as writer:
        for sample, message in (
            ({"label": "cat"}, "the sample lacks 'number'"),
            ({"label": "fox", "number": 1}, "'fox', which is not among the classes"),
            ({"label": "cat", "number": 0.5}, "column 'number' holds 0.5"),
        ):
            with pytest.raises(ConfigError, match=message):
                writer.write(noise(0), **sample)
    assert (target / "dataset.json").read_bytes() == before, "nothing was appended"


def test_an_append_that_is_abandoned_or_locked_out_changes_nothing(target: Path) -> None:
    before = (target / "dataset.json").read_bytes()
    writer = stoker.Writer(target, append=True)
    writer.write(noise(0), label="cat", number=2)
    with pytest.raises(LockedError):
        stoker.Writer(target, append=True)
    writer.abandon()
    assert (target / "dataset.json").read_bytes() == before
    assert len(stoker.open(target)) == 1


def test_appending_images_to_a_dataset_of_text_is_refused(tmp_path: Path) -> None:
    with stoker.TextWriter(tmp_path / "text", tokenizer="bytes") as writer:
        writer.write("a")
    with pytest.raises(DatasetError, match="appends only to a dataset of images"):
        stoker.Writer(tmp_path / "text", append=True)
