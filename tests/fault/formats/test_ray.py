"""A conversion on Ray, by a stand-in that runs each task here: what it asks of Ray, and its errors."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.data.file_trees import read_files

import stoker
from stoker.errors import ConfigError, DecodeError, EngineError, MissingDependencyError

if TYPE_CHECKING:
    from pathlib import Path


class RayError(Exception):
    """A task that Ray gave up."""


class RayTaskError(RayError):
    """An exception that a task raised."""

    cause: Exception


class Ray:
    """Runs each task at once, on copies of its arguments.

    Attributes:
        lost: Number of tasks that end before the worker of the next one dies, for good.
    """

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, lost: int = 1000) -> None:
        self.lost = lost
        self.ended: dict[object, Any] = {}
        self.shared: dict[object, bytes] = {}

    def is_initialized(self) -> bool:
        return True

    def put(self, value: Any) -> object:
        reference = object()
        self.shared[reference] = pickle.dumps(value)
        return reference

    def remote(self, *, num_cpus: int, max_retries: int) -> Any:
        assert num_cpus == 1
        assert max_retries > 0
        return lambda function: SimpleNamespace(remote=lambda *given: self.run(function, *given))

    def run(self, function: Any, shared: object, number: int) -> object:
        reference = object()
        if len(self.ended) < self.lost:
            self.ended[reference] = pickle.dumps(function(pickle.loads(self.shared[shared]), number))
        return reference

    def wait(self, references: list[object], *, num_returns: int, timeout: float) -> Any:
        return references[:num_returns], references[num_returns:]

    def get(self, reference: object) -> Any:
        if reference not in self.ended:
            raise RayError("the worker died")
        return pickle.loads(self.ended[reference])

    def cancel(self, reference: object, *, force: bool) -> None:
        assert force


def test_shards_have_the_bytes_of_a_local_conversion(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", Ray())
    summary = stoker.convert(photos, tmp_path / "ray", engine="ray", shards=4, seed=5)
    local = stoker.convert(photos, tmp_path / "local", shards=4, seed=5)
    assert (summary.written, summary.shards) == (local.written, local.shards)
    assert read_files(tmp_path / "ray") == read_files(tmp_path / "local")


@pytest.mark.parametrize("seed", [None, 5])
def test_tables_are_converted_as_locally(
    seed: int | None, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [file.read_bytes() for file in sorted(photos.rglob("*.jpg"))]
    (tmp_path / "tables").mkdir()
    for number in range(2):
        table = pa.table({"image": images[number::2], "score": [0.5] * len(images[number::2])})
        pq.write_table(table, tmp_path / "tables" / f"{number}.parquet", row_group_size=3)
    monkeypatch.setitem(sys.modules, "ray", Ray())
    options = {"shards": 4, "seed": seed}
    summary = stoker.convert(tmp_path / "tables", tmp_path / "ray", engine="ray", **options)
    stoker.convert(tmp_path / "tables", tmp_path / "local", **options)
    assert summary.written == len(images)
    assert read_files(tmp_path / "ray") == read_files(tmp_path / "local")


def test_a_shard_whose_workers_die_is_an_error_and_the_next_run_resumes(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", Ray(lost=2))
    with pytest.raises(EngineError, match="could not make a shard: the worker died"):
        stoker.convert(photos, tmp_path / "ray", engine="ray", shards=4)
    stoker.convert(photos, tmp_path / "ray", shards=4)
    stoker.convert(photos, tmp_path / "local", shards=4)
    assert read_files(tmp_path / "ray") == read_files(tmp_path / "local")


def test_an_error_in_a_shard_is_raised_as_it_is(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", Ray())
    (photos / "class-0" / "0.jpg").write_bytes(b"no picture")
    with pytest.raises(DecodeError, match=r"0\.jpg"):
        stoker.convert(photos, tmp_path / "ray", engine="ray", strict=True)


def test_another_engine_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="engine must be one of local, ray, not 'spark'"):
        stoker.convert(photos, tmp_path / "out", engine="spark")  # type: ignore[arg-type]  # the test


def test_a_missing_ray_is_named_with_its_command(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match="pip install ray"):
        stoker.convert(photos, tmp_path / "out", engine="ray")
