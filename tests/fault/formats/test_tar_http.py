"""Tar archives behind a faulty web server: as a source of a conversion, and through the cache of a loader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import jpeg
from helpers.shards import write_samples

import stoker
from stoker.errors import StorageError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def server(tmp_path: Path, serve: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server of two archives of four samples, and an empty cache of indexes."""
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "indexes"))
    (tmp_path / "served").mkdir()
    for shard in range(2):
        numbers = range(4 * shard, 4 * shard + 4)
        samples = [{"__key__": f"k{i}", "jpg": jpeg(i, 60, 60), "cls": i} for i in numbers]
        write_samples(tmp_path / "served" / f"{shard}.tar", samples)
    return serve(tmp_path / "served")


def test_a_source_survives_requests_that_fail(server: Any, tmp_path: Path) -> None:
    server.faults = ("drop", "refuse")
    summary = stoker.convert(f"{server.url}/{{0..1}}.tar", tmp_path / "there", num_threads=2)
    stoker.convert(tmp_path / "served", tmp_path / "here")
    assert (summary.written, summary.skipped) == (8, {})
    name = "shard-00000-of-00001.tfrecord"
    assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_a_loader_survives_requests_that_fail(server: Any, tmp_path: Path) -> None:
    server.faults = ("refuse",)
    url = f"{server.url}/{{0..1}}.tar"
    dataset = stoker.open(url, cache=tmp_path / "blocks")
    assert [dataset.read(i) for i in range(8)] == [jpeg(i, 60, 60) for i in range(8)]
    assert stoker.open(url, cache=tmp_path / "blocks").labels.tolist() == list(range(8))


def test_an_archive_that_is_missing_is_named(server: Any, tmp_path: Path) -> None:
    for action in (
        lambda url: stoker.convert(url, tmp_path / "out"),
        lambda url: stoker.open(url, cache=tmp_path / "blocks"),
    ):
        with pytest.raises((StorageError, ValueError), match=r"no such .*2\.tar"):
            action(f"{server.url}/{{1..2}}.tar")
