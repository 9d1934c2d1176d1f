"""Datasets of Hugging Face as sources of a conversion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.errors import ConfigError

hf = pytest.importorskip("datasets")


def dataset(make_jpeg: Callable[..., bytes], **more: Any) -> Any:
    features = {
        "picture": hf.Image(),
        "animal": hf.ClassLabel(names=["cat", "dog"]),
        "caption": hf.Value("string"),
        "score": hf.Value("float32"),
        "vector": hf.Sequence(hf.Value("int16")),
        **more,
    }
    columns: dict[str, list[Any]] = {
        "picture": [{"bytes": make_jpeg(i), "path": None} for i in range(4)],
        "animal": [0, 1, 1, 0],
        "caption": list("abcd"),
        "score": [0.5, 1, 2, 3],
        "vector": [[1, 2], [3, 4], [5, 6], [7, 8]],
    }
    columns |= {name: [0, 1, 0, 1] for name in more}
    return hf.Dataset.from_dict(columns, features=hf.Features(features))


@pytest.mark.parametrize("iterable", [False, True])
def test_a_dataset_keeps_files_classes_and_types(
    tmp_path: Path, make_jpeg: Callable[..., bytes], iterable: bool
) -> None:
    source = dataset(make_jpeg)
    stoker.convert(source.to_iterable_dataset() if iterable else source, tmp_path / "out")
    converted = stoker.open(tmp_path / "out")
    assert [converted.read(i) for i in range(4)] == [make_jpeg(i) for i in range(4)]
    assert (converted.classes, converted.labels.tolist()) == (("cat", "dog"), [0, 1, 1, 0])
    assert converted.strings("caption", range(4)) == list("abcd")
    assert (converted.types["score"], converted.column("score").tolist()) == ("float", [0.5, 1, 2, 3])
    assert (converted.arrays["vector"].dtype, converted.array("vector", 2).tolist()) == ("int16", [5, 6])


def test_one_of_several_labels_must_be_named(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> None:
    source = dataset(make_jpeg, coarse=hf.ClassLabel(names=["no", "yes"]))
    with pytest.raises(ConfigError, match="the dataset has several labels: animal, coarse"):
        stoker.convert(source, tmp_path / "out")
    stoker.convert(source, tmp_path / "out", source_options=stoker.SourceOptions(fields={"coarse": "label"}))
    converted = stoker.open(tmp_path / "out")
    assert (converted.classes, converted.column("animal").tolist()) == (("no", "yes"), [0, 1, 1, 0])


def test_a_dict_of_splits_is_refused(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> None:
    with pytest.raises(ConfigError, match="is a DatasetDict of 'train', no dataset"):
        stoker.convert(hf.DatasetDict({"train": dataset(make_jpeg)}), tmp_path / "out")
