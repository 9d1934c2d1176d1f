"""Shards by WebDataset's TarWriter, read in place as WebDataset reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import jpeg

import stoker
from stoker.augment import Resize
from stoker.formats.in_place.shards import index

webdataset = pytest.importorskip("webdataset")


def write(path: Path, first: int) -> Path:
    with webdataset.TarWriter(str(path)) as writer:
        for i in range(first, first + 3):
            facts = {"label": ["cat", "dog"][i % 2], "width": i}
            sample = {"jpg": jpeg(i), "cls": i, "txt": f"photo {i}", "json": facts}
            writer.write({"__key__": f"part/{i:03d}", **sample})
    return path


def read(path: Path) -> list[dict[str, Any]]:
    """The samples of an archive, as WebDataset groups them."""
    with path.open("rb") as file:
        members = webdataset.tariterators.tar_file_iterator(file)
        named = ({**member, "__url__": ""} for member in members)
        return list(webdataset.tariterators.group_by_keys(named))


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    return [write(tmp_path / f"train-{shard:06d}.tar", 3 * shard) for shard in range(2)]


def test_what_webdataset_writes_is_read_in_place(shards: list[Path], tmp_path: Path) -> None:
    before = [path.read_bytes() for path in shards]
    index([tmp_path / "train-{000000..000001}.tar"], tmp_path / "into")
    dataset = stoker.open(tmp_path / "into")
    theirs = [sample for path in shards for sample in read(path)]
    assert dataset.keys(range(6)) == [sample["__key__"] for sample in theirs]
    assert [dataset.read(i) for i in range(6)] == [sample["jpg"] for sample in theirs]
    assert dataset.labels.tolist() == [int(sample["cls"]) for sample in theirs]
    assert dataset.index.strings("caption", range(6)) == [sample["txt"].decode() for sample in theirs]
    assert stoker.verify(tmp_path / "into", decode=True).ok
    columns = ("image", "label", "caption")
    transforms = [Resize((8, 8))]
    with stoker.ImageLoader(
        dataset, batch_size=6, transforms=transforms, columns=columns, num_threads=1
    ) as loader:
        batch = next(iter(loader))
    assert batch.image.shape == (6, 3, 8, 8)
    assert batch.caption[4] == "photo 4"
    assert [path.read_bytes() for path in shards] == before


def test_fields_of_a_json_member_become_labels_and_columns(shards: list[Path], tmp_path: Path) -> None:
    names = {"label": "json:label", "columns": {"across": "json:width"}}
    index(shards, tmp_path / "named", names=names)
    dataset = stoker.open(tmp_path / "named")
    assert dataset.classes == ("cat", "dog")
    assert dataset.labels.tolist() == [i % 2 for i in range(6)]
    assert dataset.column("across").tolist() == list(range(6))
    assert {path.name for path in (tmp_path / "named").iterdir()} == {
        "dataset.json",
        "index.arrow",
        "sha256.json",
    }
