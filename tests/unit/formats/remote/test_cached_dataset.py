"""Datasets with a local cache: its folder, its owner, read-only mounts, and files of other programs in it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.loaders import image_arguments

import stoker
from stoker.augment import CenterCrop
from stoker.errors import ConfigError, WriteError
from stoker.formats.remote.stage import stage

PRECIOUS = "a file of another user\n"


@pytest.fixture
def source(make_dataset: Callable[..., Path]) -> Path:
    return make_dataset()


def folder_in(cache: Path, source: Path) -> Path:
    return cache / stoker.open(source).fingerprint


def read(source: Path, cache: Path) -> bytes:
    return stoker.open(source, cache=cache).read(0)


@pytest.mark.parametrize("exists", [False, True])
def test_other_users_may_not_enter_the_folder_of_a_cache(source: Path, tmp_path: Path, exists: bool) -> None:
    folder = folder_in(tmp_path / "cache", source)
    if exists:
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    assert read(source, tmp_path / "cache") == stoker.open(source).read(0)
    assert folder.stat().st_mode & 0o777 == 0o700


def flip_a_bit(index: bytes) -> bytes:
    return index[:-2000] + bytes([index[-2000] ^ 1]) + index[-1999:]


@pytest.mark.parametrize("damage", [flip_a_bit, lambda index: index[:-1], lambda _: b""])
def test_a_damaged_index_in_a_cache_is_fetched_again(
    source: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache = tmp_path / "cache"
    whole = read(source, cache)
    index = folder_in(cache, source) / "index.arrow"
    index.write_bytes(damage(index.read_bytes()))
    assert read(source, cache) == whole
    assert index.read_bytes() == (source / "index.arrow").read_bytes()
    victim = tmp_path / "victim"
    index.rename(victim)
    index.symlink_to(victim)
    assert read(source, cache) == whole
    assert not index.is_symlink(), "a link instead of the index is replaced and its target kept"
    assert victim.read_bytes() == index.read_bytes()


@pytest.mark.parametrize("folder", ["s3://bucket/cache", "file:///tmp/cache", ""])
def test_a_cache_or_a_staged_copy_needs_a_local_folder(
    source: Path, tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    reading = stoker.Reading(cache=stoker.Cache(folder))
    for attempt, name in (
        (lambda: stoker.open(source, cache=folder), "cache"),
        (lambda: stoker.ImageLoader(source, batch_size=1, reading=reading), "cache"),
        (lambda: stage(source, folder), "target"),
    ):
        with pytest.raises(ConfigError, match=f"{name} is a URL" if folder else f"{name} is empty"):
            attempt()
    assert sorted(tmp_path.iterdir()) == before


@pytest.fixture
def mount_read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """``mount_read_only()`` makes calls that change the disk fail as on a read-only mount."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def open_to_read(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            refuse()
        return opened(path, flags, mode)

    def mount() -> None:
        monkeypatch.setattr(os, "open", open_to_read)
        monkeypatch.setattr(
            os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY, f_bavail=0, f_frsize=4096)
        )
        for call in ("mkdir", "unlink", "rmdir", "rename", "fchmod"):
            monkeypatch.setattr(os, call, refuse)

    opened = os.open
    return mount


@pytest.mark.parametrize("cache_size", [None, "4KB"])
@pytest.mark.parametrize("is_owner", [True, False])
def test_a_complete_cache_on_a_read_only_mount_is_read_by_any_user(
    source: Path,
    tmp_path: Path,
    mount_read_only: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    cache_size: str | None,
    is_owner: bool,
) -> None:
    cache, rows = tmp_path / "cache", range(len(stoker.open(source)))
    filled = stoker.open(source, cache=cache)
    payloads = [filled.read(row) for row in rows]
    folder_in(cache, source).chmod(0o755)
    mount_read_only()
    if not is_owner:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    dataset = stoker.open(source, cache=cache, cache_size=cache_size)
    assert [dataset.read(row) for row in rows] == payloads
    options: dict[str, Any] = {"transforms": [CenterCrop(8)], "batch_size": 2, "columns": ("row",)}
    with stoker.ImageLoader(
        source, **image_arguments(cache=cache, cache_size=cache_size, **options)
    ) as loader:
        assert sorted(row for batch in loader for row in batch.row.tolist()) == list(rows)
    assert folder_in(cache, source).stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("lost", ["a part of a shard", "the index", "everything"])
def test_a_read_only_cache_that_lacks_a_part_of_the_dataset_says_so(
    source: Path, tmp_path: Path, mount_read_only: Callable[[], None], lost: str
) -> None:
    cache = tmp_path / "cache"
    read(source, cache)
    folder = folder_in(cache, source)
    if lost == "a part of a shard":
        (folder / ".blocks").write_bytes(bytes((folder / ".blocks").stat().st_size))
    else:
        (folder / "index.arrow").unlink()
        if lost == "everything":
            folder.rename(tmp_path / "elsewhere")
    mount_read_only()
    with pytest.raises(WriteError, match="read-only, and lacks a part of the dataset"):
        read(source, cache)


@pytest.mark.parametrize("larger", ["1GB", None])
def test_a_smaller_cache_size_evicts_nothing_while_another_reader_has_a_larger_one(
    source: Path, tmp_path: Path, larger: str | None
) -> None:
    def blocks() -> list[bool]:
        return [state != 0 for state in (folder_in(tmp_path, source) / ".blocks").read_bytes()]

    options: dict[str, Any] = {"cache": tmp_path, "transforms": [CenterCrop(8)], "batch_size": 2}
    with stoker.ImageLoader(source, **image_arguments(cache_size=larger, **options)) as larger_reader:
        for _ in larger_reader:
            pass
        with stoker.ImageLoader(source, **image_arguments(cache_size="4KB", **options)) as loader:
            for _ in loader:
                pass
        small = stoker.open(source, cache=tmp_path, cache_size="4KB")
        small.read(0)
        assert all(blocks())
    small.read(0)
    assert not all(blocks())


@pytest.mark.parametrize("name", ["shard-00000-of-00002.tfrecord", ".blocks", ""])
def test_a_link_in_a_cache_is_refused_and_its_target_kept(source: Path, tmp_path: Path, name: str) -> None:
    victim, link = tmp_path / "victim", folder_in(tmp_path / "cache", source) / name
    link.parent.mkdir(parents=True)
    victim.write_text(PRECIOUS) if name else victim.mkdir()
    link.symlink_to(victim)
    with pytest.raises(WriteError, match="the cache holds a link") as caught:
        read(source, tmp_path / "cache")
    assert str(caught.value.path).endswith(name)
    assert victim.read_text() == PRECIOUS if name else list(victim.iterdir()) == []


def test_a_pipe_or_a_folder_of_another_user_is_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_in(tmp_path / "cache", source)
    folder.mkdir(parents=True)
    os.mkfifo(folder / "shard-00000-of-00002.tfrecord")
    with pytest.raises(WriteError, match="not a regular file"):
        read(source, tmp_path / "cache")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(WriteError, match="belongs to another user"):
        read(source, tmp_path / "cache")
