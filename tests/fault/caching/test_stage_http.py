"""Staging from a web server that drops connections, damages data or dies: a right copy, or a clear error."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import read_files
from helpers.processes import wait_until

import stoker
from stoker.errors import ConfigError, DatasetError, LockedError, StorageError, WriteError
from stoker.formats.remote import block_files
from stoker.formats.remote.stage import stage


@pytest.fixture(autouse=True)
def short_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a request two blocks long; users choose no length."""
    monkeypatch.setattr(block_files, "_REQUEST_BYTES", 8192)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, photographs: list[Path]) -> Path:
    """Small photographs in five shards."""
    photos = Path(os.path.commonpath([str(file) for file in photographs]))
    folder = tmp_path_factory.mktemp("source") / "dataset"
    stoker.convert(
        photos,
        folder,
        resize="shorter=64",
        seed=0,
        source_options=stoker.SourceOptions(class_depth=1),
        storage=stoker.ImageStorage(shards=5),
    )
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here"


def test_a_staged_dataset_has_the_bytes_of_its_source(source: Path, here: Path, server: Any) -> None:
    reported: list[tuple[int, int]] = []
    summary = stage(server.url, here, progress=lambda *state: reported.append(state))
    assert read_files(here) == read_files(source)
    assert stoker.verify(here).ok
    assert summary.bytes == summary.fetched == reported[-1][0] == reported[-1][1]
    assert (summary.repeated, summary.path) == (0, here)
    assert summary.bytes_per_second == pytest.approx(summary.fetched / summary.seconds)


def test_an_lmdb_dataset_at_a_path_is_staged(
    source: Path, tmp_path: Path, make_dataset: Callable[..., Path]
) -> None:
    folder = make_dataset("lmdb")
    stage(folder, tmp_path / "here")
    (folder / "part-0").unlink(missing_ok=True)
    assert read_files(tmp_path / "here") == read_files(folder)
    assert len(stoker.open(tmp_path / "here")) == 6


def test_dropped_and_refused_connections_are_tried_again(source: Path, here: Path, server: Any) -> None:
    server.faults = ("drop", "refuse", "drop")
    stage(server.url, here)
    assert read_files(here) == read_files(source)


def test_a_block_that_is_damaged_once_is_fetched_again(source: Path, here: Path, server: Any) -> None:
    names = ("shard-00002-of-00005.tfrecord", "index.arrow")
    server.corrupt = dict.fromkeys(names, 1)
    summary = stage(server.url, here)
    assert read_files(here) == read_files(source)
    assert summary.repeated == 2
    assert summary.fetched == summary.bytes + sum((source / name).stat().st_size for name in names)


def test_a_block_that_stays_damaged_is_an_error(source: Path, here: Path, server: Any) -> None:
    server.corrupt = {"shard-00002-of-00005.tfrecord": 10**6}
    with pytest.raises(StorageError, match="arrives damaged, 3 times") as caught:
        stage(server.url, here)
    assert caught.value.path == f"{server.url}/shard-00002-of-00005.tfrecord"
    assert caught.value.shard == "shard-00002-of-00005.tfrecord"
    with pytest.raises(DatasetError, match="not a dataset"):
        stoker.open(here)
    server.corrupt = {}
    stage(server.url, here)
    assert read_files(here) == read_files(source)


def test_staging_resumes_after_the_server_comes_back(source: Path, here: Path, server: Any) -> None:
    server.concerns = lambda name, number: number > 30
    server.closed.set()
    with pytest.raises(StorageError, match="cannot be read") as caught:
        stage(server.url, here, connections=2)
    assert str(caught.value.path).startswith(f"{server.url}/")
    server.closed.clear()
    summary = stage(server.url, here)
    assert read_files(here) == read_files(source)
    assert summary.fetched < summary.bytes


def test_staging_resumes_after_a_kill(source: Path, here: Path, server: Any) -> None:
    server.concerns = lambda name, number: name == "shard-00004-of-00005.tfrecord"
    server.held.clear()
    code = "import sys; from stoker.formats.remote.stage import stage; stage(*sys.argv[1:], connections=1)"
    state = here / ".stoker-stage" / ".blocks"
    child = subprocess.Popen([sys.executable, "-c", code, server.url, here])
    # Blocks are as large as usual there: a whole file is one.
    wait_until(lambda: state.exists() and any(state.read_bytes()))
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    server.held.set()
    with pytest.raises(DatasetError, match="not a dataset"):
        stoker.open(here)
    stage(server.url, here)
    assert read_files(here) == read_files(source)


def test_blocks_from_before_a_kill_are_verified(source: Path, here: Path, server: Any) -> None:
    """The digest finds blocks whose bytes a power cut has lost."""
    server.corrupt = {"shard-00004-of-00005.tfrecord": 10**6}
    with pytest.raises(StorageError):
        stage(server.url, here, connections=1)
    server.corrupt = {}
    state = np.memmap(here / ".stoker-stage" / ".blocks", np.uint8, "r+")
    state[-20:] = 1
    state.flush()
    summary = stage(server.url, here)
    assert summary.repeated == 1
    assert read_files(here) == read_files(source)


def test_staging_is_completed_after_an_interrupt_at_its_last_call(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path, **options: Any) -> None:
        if path == tmp_path / ".stoker-stage" and (tmp_path / "dataset.json").exists():
            raise KeyboardInterrupt
        rmtree(path, **options)

    rmtree = shutil.rmtree
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stage(source, tmp_path)
    assert read_files(tmp_path) != read_files(source)
    assert stage(source, tmp_path).fetched == 0
    assert read_files(tmp_path) == read_files(source)


def test_a_staged_dataset_is_not_fetched_again(tmp_path: Path, here: Path, server: Any) -> None:
    stage(server.url, here)
    assert stage(server.url, here).fetched == 0
    other = tmp_path / "other"
    stoker.convert(
        Path(__file__).parents[3] / "examples" / "photos" / "val",
        other,
        storage=stoker.ImageStorage(shards=2),
    )
    with pytest.raises(DatasetError, match="another dataset in the folder"):
        stage(other, here)


def test_a_damaged_copy_is_repaired(source: Path, here: Path, server: Any) -> None:
    stage(server.url, here)
    cut, gone = (f"shard-0000{number}-of-00005.tfrecord" for number in (1, 3))
    size = (here / cut).stat().st_size + (here / gone).stat().st_size
    os.truncate(here / cut, 1000)
    (here / gone).unlink()
    # Until the copy is whole it must not open as a dataset.
    server.corrupt = {cut: 10**6}
    with pytest.raises(StorageError, match="arrives damaged"):
        stage(server.url, here)
    with pytest.raises(DatasetError, match="not a dataset"):
        stoker.open(here)
    server.corrupt = {}
    assert 0 < stage(server.url, here).fetched <= size
    assert read_files(here) == read_files(source)


def test_arguments_outside_their_limits_are_refused(
    source: Path, tmp_path: Path, here: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = stoker.open(source).manifest
    two = manifest.index.bytes + sum(shard.bytes for shard in manifest.shards[:2])
    with pytest.raises(ConfigError, match="2 of its 5 shards would fit") as caught:
        stage(server.url, here, limit=two)
    assert caught.value.path == server.url
    with pytest.raises(ConfigError, match="connections"):
        stage(server.url, here, connections=0)
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
        with pytest.raises(WriteError, match="1,000 are free"):
            stage(server.url, here)
    stage(server.url, here, limit=sum(shard.bytes for shard in manifest.shards[2:]) + two)


def test_a_server_without_ranges_is_named(here: Path, server: Any) -> None:
    server.ranges = False
    with pytest.raises(StorageError, match="does not answer range requests") as caught:
        stage(server.url, here)
    assert str(caught.value.path).startswith(server.url)


def test_an_address_without_a_dataset_is_an_error(tmp_path: Path, here: Path, server: Any) -> None:
    with pytest.raises(DatasetError, match=r"dataset\.json does not exist") as caught:
        stage(f"{server.url}/nowhere", here)
    assert caught.value.path == f"{server.url}/nowhere"
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "dataset.json").write_text("{}")
    with pytest.raises(DatasetError, match="must be a JSON object with a version"):
        stage(tmp_path / "bad", here)
    server.closed.set()  # otherwise a kept connection would still be answered
    server.stop()
    with pytest.raises(StorageError, match="cannot be read"):
        stage(server.url, here)


def test_a_second_staging_into_the_same_folder_is_refused(source: Path, here: Path, server: Any) -> None:
    server.concerns = lambda name, number: name.endswith(".tfrecord")
    server.held.clear()
    first = threading.Thread(target=lambda: stage(server.url, here))
    first.start()
    wait_until((here / ".stoker-stage" / ".blocks").exists)
    with pytest.raises(LockedError):
        stage(server.url, here)
    server.held.set()
    first.join()
    assert read_files(here) == read_files(source)
