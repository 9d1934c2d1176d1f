"""Making files appear whole or not at all, and keeping other writers out of a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from stoker.errors import ConfigError, LockedError, StokerError, WriteError

from .paths import printable_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "check_target",
    "folder_lock",
    "made_folder",
    "move_durably",
    "os_errors",
    "remove",
    "sync",
    "sync_folder",
    "write_durably",
]

LOCK_NAME = ".stoker-lock"


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the right to write into a folder.

    The kernel holds the lock (flock(2)) and gives it up when the process ends, however it ends; the
    file that is left then locks nobody out.

    Raises:
        LockedError: Another process or thread holds it.
    """
    path = folder / LOCK_NAME
    descriptor = _acquire(path)
    try:
        yield
    finally:
        try:  # removed while it is still held: whoever opened it in between sees that it is gone
            with suppress(OSError):
                path.unlink()
        finally:
            os.close(descriptor)


def _acquire(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(descriptor, path):
                return descriptor
        except BaseException as error:  # an interrupt, too: this process would hold the lock to its end
            os.close(descriptor)
            if isinstance(error, OSError) and error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise LockedError(
                    "another process is writing into this folder",
                    path=path.parent,
                    hint="wait until it has ended, or name another folder",
                ) from error
            raise
        os.close(descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def made_folder(path: Path) -> Iterator[None]:
    """A folder that is made if missing; it goes again if the block fails and has left nothing in it.

    Raises:
        ConfigError: Its path is not UTF-8, in which Arrow could write no index.
    """
    check_target(path)
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for place in missing:
            with suppress(OSError):  # not empty
                place.rmdir()
        raise


def check_target(folder: Path) -> None:
    """See that a folder can be made, or is one, and that files of Arrow can be in it.

    Raises:
        ConfigError: Its path is that of a file, or is not UTF-8.
    """
    with suppress(OSError):  # what cannot be looked at cannot be written either, which is said then
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise ConfigError("the target is a file, and a dataset is a folder", path=folder)
    try:
        os.fspath(folder.absolute()).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            "the path of the folder is not UTF-8, in which an index can be written",
            path=printable_name(os.fspath(folder)),
            hint="name another folder",
        ) from None


@contextmanager
def os_errors(folder: Path) -> Iterator[None]:
    """Turn an operating system's error while writing into a WriteError that says how to go on."""
    try:
        yield
    except StokerError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise WriteError(
            "the disk is full" if full else f"the dataset cannot be written: {error.strerror or error}",
            path=error.filename or folder,
            hint=f"{'make room' if full else 'see to it'}, then run the same command again: it resumes",
        ) from error


def sync(path: Path) -> None:
    """Have a file, or all files of a folder and the folder itself, on the disk."""
    if path.is_dir():
        for child in sorted(path.iterdir()):
            sync(child)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, content: bytes | bytearray) -> None:
    """Write a file that is there with all its content or not at all, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.rename(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def _write_all(descriptor: int, content: bytes | bytearray) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def move_durably(source: Path, target: Path) -> None:
    """Rename a file or folder that has been synced; what had the name before is replaced."""
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    source.rename(target)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; nothing happens where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
