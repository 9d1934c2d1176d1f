"""Tests of shards by WebDataset's TarWriter, read in place as WebDataset reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.data.datasets import jpeg

import stoker
from stoker.augment import Resize
from stoker.formats.external.external_index import index

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


def test_what_webdataset_writes_is_read_in_place(tmp_path: Path) -> None:
    shards = [write(tmp_path / f"train-{shard:06d}.tar", 3 * shard) for shard in range(2)]
    before = [path.read_bytes() for path in shards]
    names = tmp_path / "train-{000000..000001}.tar"
    index([names], tmp_path / "into")
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
    named = {"label": "json:label", "columns": {"across": "json:width"}}
    index([names], tmp_path / "named", names=named)
    dataset = stoker.open(tmp_path / "named")
    assert dataset.classes == ("cat", "dog")
    assert dataset.labels.tolist() == [i % 2 for i in range(6)]
    assert dataset.column("across").tolist() == list(range(6))
    assert [path.read_bytes() for path in shards] == before
    assert {path.name for path in (tmp_path / "named").iterdir()} == {"dataset.json", "index.arrow"}
