"""Writing for publication: files that appear whole or not at all, and locks on folders."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker.errors import ConfigError, LockedError, StokerError, WriteError

from .paths import printable_name

LOCK_NAME = ".stoker-lock"


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that is written into.

    The kernel holds the lock (flock(2)) and releases it when the process ends, however it ends. A lock file
    that is left over locks no other process out.
    """
    path = folder / LOCK_NAME
    descriptor = _acquire(path)
    try:
        yield
    finally:
        try:  # before the lock is released, so that a process that has the file open sees that it is gone
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
        except BaseException as error:  # after an interrupt, too, this process must not keep the lock
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
def folder_for_writing(path: Path) -> Iterator[None]:
    """Make a folder if it is missing, and remove it if the block fails and leaves nothing in it."""
    check_target(path)
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # not empty
                folder.rmdir()
        raise


def check_target(folder: Path) -> None:
    """Check that a folder exists or can be made, and that Arrow can write into it."""
    with suppress(OSError):  # if the folder cannot be examined, the write reports it
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise ConfigError("the target is a file, and a dataset is a folder", path=folder)
    try:
        os.fspath(folder.absolute()).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            "the path of the folder is not UTF-8, and an index can be written only to a path in UTF-8",
            path=printable_name(os.fspath(folder)),
            hint="name another folder",
        ) from None


@contextmanager
def os_errors(folder: Path, *, resumes: bool = True) -> Iterator[None]:
    """Raise a WriteError, with advice, for an error of the operating system during a write into a folder.

    ``resumes`` says whether the command resumes when it is run again.
    """
    try:
        yield
    except StokerError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise WriteError(
            "the disk is full" if full else f"the dataset cannot be written: {error.strerror or error}",
            path=error.filename or folder,
            hint=f"{'make room' if full else 'allow the write'}, then "
            + ("run the same command again: it resumes" if resumes else "write all samples again"),
        ) from error


def sync(path: Path) -> None:
    """Flush a file, or all files of a folder and the folder itself, to the disk."""
    if path.is_dir():
        for child in sorted(path.iterdir()):
            sync(child)
    _flush(path, 0)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk."""
    _flush(path, os.O_DIRECTORY)


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, content: bytes | bytearray) -> None:
    """Write a file that exists with all its content or not at all, even after a power cut."""
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
    """Rename a file or folder that has been synced; it replaces a file or folder at ``target``."""
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    source.rename(target)


def remove(path: Path) -> None:
    """Remove a file, or a folder and its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
