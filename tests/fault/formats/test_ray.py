"""A conversion on Ray, whose stand-in runs each task in this process: its shards, and its errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.cluster import RayTasks
from helpers.datasets import read_files
from helpers.options import convert_options

import stoker
from stoker.errors import ConfigError, DecodeError, EngineError, MissingDependencyError


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces Ray by the stand-in."""
    monkeypatch.setitem(sys.modules, "ray", RayTasks())


@pytest.mark.usefixtures("ray")
def test_shards_have_the_bytes_of_a_local_conversion(photos: Path, tmp_path: Path) -> None:
    summary = stoker.convert(
        photos, tmp_path / "ray", engine="ray", seed=5, storage=stoker.ImageStorage(shards=4)
    )
    local = stoker.convert(photos, tmp_path / "local", seed=5, storage=stoker.ImageStorage(shards=4))
    assert (summary.written, summary.shards) == (local.written, local.shards)
    assert read_files(tmp_path / "ray") == read_files(tmp_path / "local")


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("seed", [None, 5])
def test_shards_of_tables_have_the_bytes_of_a_local_conversion(
    seed: int | None, photos: Path, tmp_path: Path
) -> None:
    images = [file.read_bytes() for file in sorted(photos.rglob("*.jpg"))]
    (tmp_path / "tables").mkdir()
    for number in range(2):
        table = pa.table({"image": images[number::2], "score": [0.5] * len(images[number::2])})
        pq.write_table(table, tmp_path / "tables" / f"{number}.parquet", row_group_size=3)
    options = {"shards": 4, "seed": seed}
    summary = stoker.convert(tmp_path / "tables", tmp_path / "ray", engine="ray", **convert_options(options))
    stoker.convert(tmp_path / "tables", tmp_path / "local", **convert_options(options))
    assert summary.written == len(images)
    assert read_files(tmp_path / "ray") == read_files(tmp_path / "local")


def test_a_shard_whose_workers_die_is_an_error_and_the_next_run_resumes(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", RayTasks(lost=2))
    with pytest.raises(EngineError, match="could not make a shard: the worker died"):
        stoker.convert(photos, tmp_path / "ray", engine="ray", storage=stoker.ImageStorage(shards=4))
    stoker.convert(photos, tmp_path / "ray", storage=stoker.ImageStorage(shards=4))
    stoker.convert(photos, tmp_path / "local", storage=stoker.ImageStorage(shards=4))
    assert read_files(tmp_path / "ray") == read_files(tmp_path / "local")


@pytest.mark.usefixtures("ray")
def test_an_error_in_a_shard_is_raised_as_it_is(photos: Path, tmp_path: Path) -> None:
    (photos / "class-0" / "0.jpg").write_bytes(b"no picture")
    with pytest.raises(DecodeError, match=r"0\.jpg"):
        stoker.convert(photos, tmp_path / "ray", engine="ray", strict=True)


def test_another_engine_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="engine must be one of local, ray, found 'spark'"):
        stoker.convert(photos, tmp_path / "out", engine="spark")  # type: ignore[arg-type]  # the test


def test_a_missing_ray_is_named_with_its_command(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match="pip install ray"):
        stoker.convert(photos, tmp_path / "out", engine="ray")
