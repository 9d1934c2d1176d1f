"""``stoker.remove``: a version of a dataset without some of its samples."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.datasets import jpeg
from helpers.shards import write_samples

import stoker
from stoker.augment import Resize
from stoker.errors import ConfigError, SourceError
from stoker.formats.changes import remove as removing
from stoker.formats.conversion.options import ImageStorage


def test_samples_are_left_out_by_condition_and_by_key(
    write_objects: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_objects("out", range(12))
    # The index is written in parts of a million rows; here in three, one of them empty.
    monkeypatch.setattr(removing, "_CHUNK", 5)
    summary = stoker.remove(
        folder, where="num_objects == 0 or number in (5, 7, 8)", keys=["k1", "k1", "gone"]
    )
    assert (summary.version, summary.samples, summary.removed) == (2, 4, 8)
    assert summary.skipped == {"key that is not in the dataset": 1}
    dataset = stoker.open(folder)
    kept = [2, 4, 10, 11]
    assert dataset.column("number").tolist() == kept
    assert [dataset.array("vector", i).tolist() for i in range(4)] == [list(range(n % 4)) for n in kept]
    assert dataset.mask(3) == stoker.open(folder, version=1).mask(11)
    assert len(stoker.open(folder, version=1)) == 12
    assert stoker.verify(folder, decode=True).samples == 12, "those of all versions"


def test_a_key_of_several_samples_is_refused_and_a_condition_chooses_between_them(tmp_path: Path) -> None:
    for shard in range(2):
        samples = [{"__key__": f"{i:06d}", "jpg": jpeg(5 * shard + i), "cls": shard} for i in range(3)]
        write_samples(tmp_path / f"{shard}.tar", samples)
    folder = tmp_path / "out"
    stoker.convert(tmp_path / "{0..1}.tar", folder, storage=ImageStorage(shards=2))
    with pytest.raises(ConfigError, match="the key '000001' names 2 samples, and 1 more keys") as caught:
        stoker.remove(folder, keys=["000001", "000002"])
    with stoker.ImageLoader(folder, batch_size=1, transforms=[Resize((8, 8))], columns=("row",)) as loader:
        with pytest.raises(ConfigError, match=r"the key '000001' names 2 samples(.|\n)*position"):
            loader.exclude(loader.dataset.keys([1]))
        loader.exclude(1)
        rows = [int(row) for batch in loader for row in batch.row]
        assert 1 not in rows
        assert 4 in rows
    assert caught.value.hint is not None
    condition = re.search(r'where="(.*?)"', caught.value.hint)
    assert condition is not None
    assert stoker.remove(folder, where=condition[1]).removed == 1
    assert stoker.open(folder).keys([0, 1, 2, 3, 4]) == ["000000", "000002", "000000", "000001", "000002"]
    assert stoker.remove(folder, keys=["000001"]).removed == 1


def test_a_file_of_keys_may_have_empty_lines_and_carriage_returns(
    write_objects: Callable[..., Path], tmp_path: Path
) -> None:
    train = write_objects("train", range(4))
    with pytest.raises(SourceError, match="the file of keys cannot be read"):
        stoker.remove(train, keys=tmp_path / "keys.txt")
    (tmp_path / "keys.txt").write_text("k0\r\n\nk2\n")
    stoker.remove(train, keys=tmp_path / "keys.txt")
    assert stoker.open(train).keys([0, 1]) == ["k1", "k3"]


def test_a_removal_that_is_refused_makes_no_version(write_objects: Callable[..., Path]) -> None:
    folder = write_objects("out", range(3))
    with pytest.raises(ConfigError, match="remove needs keys or a condition"):
        stoker.remove(folder)
    with pytest.raises(ConfigError, match="no sample would be left out"):
        stoker.remove(folder, keys=["k9"])
    with pytest.raises(ConfigError, match="every sample would be left out"):
        stoker.remove(folder, where="width > 0")
    with pytest.raises(ConfigError, match=r"No match for.*\n.*number \(int64\)"):
        stoker.remove(folder, where="widht < 64")
    assert stoker.open(folder).manifest.dataset_version == 1
    assert not list(folder.glob(".*"))
