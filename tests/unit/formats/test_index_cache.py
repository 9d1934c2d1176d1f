"""Tests of the cache of indexes of sources that are read in place."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from stoker.errors import StorageError, WriteError
from stoker.formats.files import cache_folder
from stoker.formats.index_cache import MOST_INDEXES, cached_index, cached_indexes, clear_indexes

pytestmark = pytest.mark.usefixtures("cache")


def make(folder: Path) -> None:
    (folder / "dataset.json").write_text("{}")


def fail(folder: Path) -> None:
    (folder / "dataset.json").write_text("{}")
    raise ValueError("a damaged source")


def test_an_index_is_made_once_for_each_source_and_identity() -> None:
    calls: list[Path] = []

    def count(folder: Path) -> None:
        calls.append(folder)
        make(folder)

    first = cached_index("/photos", [1, "jpg"], count)
    assert cached_index("/photos", [1, "jpg"], count) == first
    assert len(calls) == 1
    assert (first / "dataset.json").is_file()
    assert cached_index("/photos", [2, "jpg"], count) != first
    assert cached_index("/others", [1, "jpg"], count) != first
    assert len(calls) == 3


def test_an_index_that_is_not_current_is_made_again() -> None:
    first = cached_index("/photos", [], make)
    (first / "old").touch()
    assert cached_index("/photos", [], make, lambda folder: False) == first
    assert not (first / "old").exists()


def test_an_index_that_cannot_be_made_leaves_no_files(cache: Path) -> None:
    with pytest.raises(ValueError, match="damaged source"):
        cached_index("/photos", [], fail)
    assert not cached_indexes()
    assert not list(cache.glob("indexes/*new*"))


def test_indexes_are_listed_and_cleared_for_one_source_or_all() -> None:
    for origin in ("/a", "/b"):
        cached_index(origin, [], make)
    assert {index.origin: index.bytes for index in cached_indexes()} == {"/a": 4, "/b": 4}
    assert [index.origin for index in clear_indexes("/a")] == ["/a"]
    assert [index.origin for index in clear_indexes()] == ["/b"]
    assert not cached_indexes()


def test_the_least_recently_used_index_is_evicted_first() -> None:
    for number in range(MOST_INDEXES):
        os.utime(cached_index(f"/{number}", [], make), (1e9 - number, 1e9 - number))
    cached_index("/newest", [], make)
    expected = {"/newest", *(f"/{number}" for number in range(MOST_INDEXES - 1))}
    assert {index.origin for index in cached_indexes()} == expected


def test_an_index_is_temporary_if_the_cache_folder_cannot_be_written(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    folder = cached_index("/photos", [], make)
    assert (folder / "dataset.json").is_file()
    assert not folder.is_relative_to(cache)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSPC])
def test_an_index_is_temporary_if_the_cache_has_no_locks_or_no_room(
    cache: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    error = OSError(number, os.strerror(number))
    if number == errno.ENOSPC:
        monkeypatch.setattr(Path, "rename", Mock(side_effect=error))
    else:
        monkeypatch.setattr(fcntl, "flock", Mock(side_effect=error))
    folder = cached_index("/photos", [], make)
    assert (folder / "dataset.json").is_file()
    assert not folder.is_relative_to(cache)


def test_an_error_of_the_source_is_raised_once() -> None:
    failing = Mock(side_effect=StorageError("the share is gone"))
    with pytest.raises(StorageError, match="share"):
        cached_index("/photos", [], failing)
    assert failing.call_count == 1


def test_a_user_without_a_home_has_temporary_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    assert (cached_index("/photos", [], make) / "dataset.json").is_file()
    assert not cached_indexes()


def test_the_error_names_the_cure_if_no_folder_can_be_written(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file where the folder should be")
    monkeypatch.setattr(tempfile, "gettempdir", Mock(side_effect=FileNotFoundError(2, "No usable folder")))
    with pytest.raises(WriteError, match=r"No usable folder[^$]*TMPDIR.*STOKER_CACHE"):
        cached_index("/photos", [], make)


def test_environment_variables_name_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("STOKER_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "stoker"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder().parts[-2:] == (".cache", "stoker")
