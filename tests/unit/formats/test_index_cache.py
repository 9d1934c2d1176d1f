"""Tests of the cache of indexes of sources that are read in place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


def test_environment_variables_name_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("STOKER_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "stoker"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder().parts[-2:] == (".cache", "stoker")
