"""Tests that files appear whole or not at all, and that a folder has one writer."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import stoker
from stoker._native import crc32c
from stoker.errors import ConfigError, LockedError, StokerError, WriteError
from stoker.formats.dataset.versions import read_versions
from stoker.formats.files import (
    LOCK_NAME,
    file_digest,
    folder_lock,
    move_durably,
    open_regular,
    os_errors,
    parse_byte_size,
    read_at,
    remove,
    write_durably,
)


class TestLock:
    def test_the_lock_file_of_a_killed_process_does_not_lock(self, tmp_path: Path) -> None:
        program = (
            "import os, pathlib, signal, sys\n"
            "from stoker.formats.files import folder_lock\n"
            "with folder_lock(pathlib.Path(sys.argv[1])):\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
        assert (tmp_path / LOCK_NAME).exists()
        with folder_lock(tmp_path):
            pass
        assert list(tmp_path.iterdir()) == []

    def test_a_lock_file_that_is_removed_before_it_is_locked_is_made_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flock, to_remove = fcntl.flock, [tmp_path / LOCK_NAME]

        def remove_then_lock(descriptor: int, operation: int) -> None:
            while to_remove:
                to_remove.pop().unlink()
            flock(descriptor, operation)

        monkeypatch.setattr(fcntl, "flock", remove_then_lock)
        with folder_lock(tmp_path):
            assert (tmp_path / LOCK_NAME).exists()

    @pytest.mark.parametrize(("owner", "call"), [(os, "fstat"), (Path, "unlink")], ids=["taken", "released"])
    def test_an_interrupt_while_the_lock_is_taken_or_released_releases_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, call: str
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(owner, call, Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt), folder_lock(tmp_path):
                pass
        with folder_lock(tmp_path):
            pass
        assert list(tmp_path.iterdir()) == []

    def test_the_lock_file_is_removed_while_the_lock_is_held(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unlink = Path.unlink

        def checked(path: Path) -> None:
            with path.open() as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unlink(path)

        monkeypatch.setattr(Path, "unlink", checked)
        with folder_lock(tmp_path):
            pass
        assert list(tmp_path.iterdir()) == []

    def test_a_link_with_the_name_of_the_lock_file_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / LOCK_NAME).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(OSError, match="symbolic links"), folder_lock(tmp_path):
            pass
        assert not (tmp_path / "elsewhere").exists()


class TestWriting:
    def test_a_link_with_the_temporary_name_is_not_followed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
        (tmp_path / "target").write_bytes(b"kept")
        (tmp_path / ".a.guessed").symlink_to(tmp_path / "target")
        with pytest.raises(FileExistsError):
            write_durably(tmp_path / "a", b"new")
        assert (tmp_path / "target").read_bytes() == b"kept"

    def test_short_writes_are_continued(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write = os.write
        monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:3])))
        write_durably(tmp_path / "a", b"0123456789")
        assert (tmp_path / "a").read_bytes() == b"0123456789"

    @pytest.mark.parametrize("call", ["write", "fsync"])
    def test_a_failure_leaves_the_old_file_and_no_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
    ) -> None:
        (tmp_path / "a").write_bytes(b"old")
        monkeypatch.setattr(os, call, Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        with pytest.raises(OSError, match="Input/output"):
            write_durably(tmp_path / "a", b"new")
        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_moving_replaces_files_and_folders(tmp_path: Path) -> None:
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of-{name}").touch()
    move_durably(tmp_path / "source", tmp_path / "target")
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["of-source"]
    (tmp_path / "file").touch()
    move_durably(tmp_path / "file", tmp_path / "target")
    assert (tmp_path / "target").is_file()
    (tmp_path / "file").write_bytes(b"new")
    move_durably(tmp_path / "file", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"new"


def test_removing_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / "link").symlink_to("kept")
    for name in ("link", "nothing"):
        remove(tmp_path / name)
    assert (tmp_path / "kept/file").exists()
    remove(tmp_path / "kept")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "message"),
    [(errno.ENOSPC, "disk is full"), (errno.EDQUOT, "disk is full"), (errno.EIO, "Input/output")],
)
def test_errors_of_the_disk_name_the_next_step(tmp_path: Path, code: int, message: str) -> None:
    with pytest.raises(WriteError, match=message) as caught, os_errors(tmp_path):
        raise OSError(code, os.strerror(code), str(tmp_path / "file"))
    assert "same command again" in str(caught.value)
    assert caught.value.path == str(tmp_path / "file")
    with pytest.raises(LockedError), os_errors(tmp_path):  # an error of Stoker's own, though an OSError
        raise LockedError("taken")


def test_the_digest_of_a_file_is_the_crc32c_of_all_blocks(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"123456789")
    assert file_digest(path) == "crc32c:e3069283"  # the check value of RFC 3720's polynomial
    content = bytes(9 << 20) + b"123456789"
    path.write_bytes(content)
    assert file_digest(path) == f"crc32c:{crc32c(content):08x}"


def test_a_read_continues_short_reads_and_ends_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"abcdef")
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, length, offset: pread(file, min(length, 2), offset))
    with open_regular(tmp_path / "f") as (descriptor, size):
        assert size == 6
        reads = [read_at(descriptor, offset, length) for offset, length in ((2, 3), (4, 10), (9, 1), (0, 6))]
    assert reads == [b"cde", b"ef", b"", b"abcdef"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_fifo_or_a_folder_is_refused_without_blocking(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "f"
    make(path)
    with pytest.raises(OSError, match=r"not a regular file|Is a directory"), open_regular(path):
        pass


def test_a_number_of_bytes_may_have_a_unit() -> None:
    sizes = {"256MB": 256_000_000, "1.5 GiB": 3 << 29, 1000: 1000, "7": 7, "2k": 2000, "1mib": 1 << 20}
    for text, expected in {**sizes, "2TB": 2 * 10**12}.items():
        assert parse_byte_size("shard_size", text) == expected
    for text in ("", "MB", "-1MB", "0", "1PB", "1e9", "256 M B"):
        with pytest.raises(ConfigError, match="shard_size must be a number of bytes"):
            parse_byte_size("shard_size", text)


_PIPES = ("pipe", "pq/a.parquet", "mds/index.json", "a-annotations-bbox.csv", "x.yaml", "a.tar")


@pytest.mark.parametrize("name", [*_PIPES, "pq/", "mds/"])
def test_a_pipe_is_never_opened_as_a_source(tmp_path: Path, name: str) -> None:
    for folder in ("pq", "mds"):
        (tmp_path / folder).mkdir()
    for pipe in _PIPES:
        os.mkfifo(tmp_path / pipe)
    with pytest.raises(StokerError):
        stoker.convert(tmp_path / name, tmp_path / "out")


def test_a_pipe_in_a_dataset_is_never_opened(tmp_path: Path, make_dataset: Callable[..., Path]) -> None:
    dataset = make_dataset()
    os.mkfifo(dataset / "versions.jsonl")
    assert [version.version for version in read_versions(dataset)] == [1]
    (dataset / "index.arrow").unlink()
    os.mkfifo(dataset / "index.arrow")
    for call in (stoker.open, stoker.verify, lambda path: stoker.append(path, path.parent)):
        with suppress(StokerError):
            call(dataset)
    with pytest.raises(StokerError):
        stoker.open(dataset)
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(ConfigError, match="not a regular file"):
        stoker.convert_text(iter(["a"]), tmp_path / "out", tokenizer=str(tmp_path / "tokenizer.json"))


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_written_to_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with folder_lock(tmp_path):
        pass
    assert "without locks" in caplog.text
    assert not (tmp_path / LOCK_NAME).exists()


def test_holes_of_a_file_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, dense = tmp_path / "sparse", tmp_path / "dense"
    with sparse.open("wb") as file:
        file.truncate(64 << 20)
        file.seek(20 << 20)
        file.write(b"in the middle")
    dense.write_bytes(sparse.read_bytes())
    read: list[int] = []
    original = os.pread

    def pread(descriptor: int, length: int, offset: int) -> bytes:
        read.append(length)
        return original(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    digest = file_digest(sparse)
    assert sum(read) < 1 << 20
    assert digest == file_digest(dense)
