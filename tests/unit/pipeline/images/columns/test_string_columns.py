"""ImageLoader: columns of strings, such as a note beside each label, are lists in a batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.augment import Resize
from stoker.pipeline.execution.batch import ColumnSpec

NOTES = ["first", "", "größer 🐱", "fourth", "a, b"]


@pytest.fixture
def noted(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    """A dataset of five images with a column ``note`` of strings and a column ``weight`` of numbers."""
    lines = []
    for i, note in enumerate(NOTES):
        (tmp_path / f"{i}.jpg").write_bytes(make_jpeg(i))
        lines.append(json.dumps({"path": f"{i}.jpg", "label": "cat", "note": note, "weight": i / 2}))
    (tmp_path / "list.jsonl").write_text("\n".join(lines))
    stoker.convert(tmp_path / "list.jsonl", tmp_path / "shards", seed=0)
    return tmp_path / "shards"


def load(dataset: Any, **options: Any) -> stoker.ImageLoader:
    arguments = {"batch_size": 2, "transforms": [Resize((8, 8))], "columns": ("note", "key", "weight")}
    return stoker.ImageLoader(dataset, **{**arguments, **options})


def pairs(loader: stoker.ImageLoader) -> list[tuple[str, str]]:
    """The key and the note of each sample of an epoch."""
    batches = list(loader)
    assert all(type(batch.note) is list for batch in batches)
    return [pair for batch in batches for pair in zip(batch.key, batch.note, strict=True)]


def test_a_batch_holds_strings_as_a_list_in_the_order_of_its_samples(noted: Path) -> None:
    wanted = [(f"{i}.jpg", note) for i, note in enumerate(NOTES)]
    loader = load(noted)
    assert loader.element_spec()[0] == ColumnSpec("note", "str", ())
    assert sorted(pairs(loader)) == wanted
    assert sorted(pairs(load(noted, shuffle=True, seed=3))) == wanted
    padded = pairs(load(noted, last_batch="pad"))
    assert len(padded) == 6
    assert set(padded) == set(wanted)


def test_a_selection_and_a_mixture_have_the_strings_of_their_samples(noted: Path) -> None:
    dataset = stoker.open(noted)
    assert dataset.strings("note", [3, 3]) == dataset.select([3, 3]).strings("note", [0, 1])
    mixture = stoker.mix([(dataset.select([0, 1]), 1), (dataset.select([2, 3]), 1)])
    drawn = pairs(load(mixture))
    assert dict(drawn) == dict(zip(dataset.keys(range(4)), dataset.strings("note", range(4)), strict=True))


def test_numbers_are_not_read_as_strings(noted: Path) -> None:
    with pytest.raises(stoker.errors.DatasetError, match="'weight' holds double, not strings"):
        stoker.open(noted).strings("weight", [0])
