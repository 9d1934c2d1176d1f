"""``stoker.remove``: a version of a dataset without some of its samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import stoker
from stoker.errors import ConfigError, SourceError
from stoker.formats.changes import remove as removing


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
