"""Checkpoints of datasets that have changed: a loader goes on with the version of its state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import text_arguments

import stoker
from stoker.augment import Resize
from stoker.errors import CheckpointError

Make = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

IMAGES = {"batch_size": 2, "shuffle": True, "seed": 3, "columns": ["key"], "transforms": [Resize((4, 4))]}


def keys(loader: Any) -> list[list[str]]:
    return [batch[0] for batch in loader]


@pytest.fixture
def load(open_loader: Make) -> Make:
    return lambda dataset, **options: open_loader(dataset, **{**IMAGES, **options})


@pytest.mark.parametrize("version", [1, 2])
def test_a_loader_goes_on_with_the_version_of_its_state(make_dataset: Make, load: Make, version: int) -> None:
    folder = make_dataset()
    if version == 2:
        stoker.remove(folder, keys=["k0"])
    first = load(folder)
    next(iter(first))
    state = first.state_dict()
    assert state.get("dataset_version", 1) == version
    first.load_state_dict(state)
    rest = [*keys(first), *keys(first)]
    stoker.remove(folder, keys=["k5"])
    later = load(folder)
    later.load_state_dict(state)
    assert later.dataset.manifest.dataset_version == version
    assert [*keys(later), *keys(later)] == rest
    with pytest.raises(CheckpointError, match="seed was 3 and is 4"):
        load(folder, seed=4).load_state_dict(state)


def test_a_state_without_a_version_finds_the_one_it_belongs_to(make_dataset: Make, load: Make) -> None:
    folder = make_dataset()
    stoker.remove(folder, keys=["k0"])
    state = load(folder).state_dict()
    del state["dataset_version"]  # as 0.1.0 wrote it, whose writers made versions, too
    stoker.remove(folder, keys=["k1"])
    later = load(folder)
    later.load_state_dict(state)
    assert len(later.dataset) == 5


def test_a_loader_that_was_given_a_version_keeps_it(make_dataset: Make, load: Make) -> None:
    folder = make_dataset()
    state = load(folder).state_dict()
    stoker.remove(folder, keys=["k0"])
    mixed = stoker.mix([(stoker.open(folder), 1), (stoker.open(folder), 1)])
    message = (
        r"the state is of version 1 of the dataset, and the loader has version (2|\[2, 2\])\n.*version=1"
    )
    for dataset in (stoker.open(folder), f"{folder}@2", mixed):
        with pytest.raises(CheckpointError, match=message):
            load(dataset).load_state_dict(state)
    loader = load(folder)
    loader.set_epoch(4)
    assert len([key for batch in keys(loader) for key in batch]) == 5


def test_a_text_loader_goes_on_with_the_version_of_its_state(tmp_path: Path) -> None:
    with stoker.TextWriter(tmp_path / "text", tokenizer="bytes") as writer:
        for number in range(6):
            writer.write("abcdefgh"[: 2 + number])
    options: dict[str, Any] = {"batch_size": 2, "rank": 0, "world_size": 1, "columns": ["row"]}
    with stoker.TextLoader(tmp_path / "text", **text_arguments(**options)) as loader:
        next(iter(loader))
        state = loader.state_dict()
        loader.load_state_dict(state)
        rest = [np.asarray(batch[0]).tolist() for batch in loader]
    stoker.remove(tmp_path / "text", where="text_length > 3")
    with stoker.TextLoader(tmp_path / "text", **text_arguments(**options)) as loader:
        loader.load_state_dict(state)
        assert [np.asarray(batch[0]).tolist() for batch in loader] == rest


def test_a_loader_of_a_remote_dataset_goes_on_with_the_version_of_its_state(
    make_dataset: Make, load: Make, tmp_path: Path
) -> None:
    folder = make_dataset()
    state = load(f"file://{folder}", cache=tmp_path / "cache").state_dict()
    stoker.remove(folder, keys=["k0"])
    later = load(f"file://{folder}", cache=tmp_path / "cache")
    assert len(later.dataset) == 5
    later.load_state_dict({**state, "dataset_version": 1})
    assert len(later.dataset) == 6
