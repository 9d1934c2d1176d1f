"""Files on a local disk: guarded reading, digests, and writing that publishes whole files only."""

from __future__ import annotations

import difflib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from stoker._native import crc32c
from stoker.errors import ConfigError, LockedError, SourceError, StokerError, StorageError, WriteError
from stoker.log import EventLog

LOCK_NAME = ".stoker-lock"
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
_LOG = EventLog("storage")

NO_MEMORY = "no memory to decode it"
"""The reason of a sample for which the memory is too small, in Python and in C++."""

_BLOCK = 1 << 22
_OF_THE_PATH = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO, errno.EINVAL
)  # fmt: skip
_OF_THE_MACHINE = frozenset(os.strerror(number) for number in errno.errorcode if number not in _OF_THE_PATH)
_GONE = os.strerror(errno.ENOENT)
_RESOURCES = (
    {
        os.strerror(number): "Raise the limit of open files (ulimit -n), or close loaders that are not used."
        for number in (errno.EMFILE, errno.ENFILE)
    }
    | {os.strerror(errno.EAGAIN): "Use fewer threads, or raise the limit of threads (ulimit -u, pids.max)."}
    | dict.fromkeys(
        (NO_MEMORY, os.strerror(errno.ENOMEM)), "Use fewer threads or smaller batches, or allow more memory."
    )
)
"""What to do where the machine has no more of something, by the reason of the failure."""
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def is_regular(status: os.stat_result) -> bool:
    """Return whether a file is a regular file, not a folder, link, FIFO, socket or device."""
    return stat.S_ISREG(status.st_mode)


def modified_ns(status: os.stat_result) -> int:
    """Return the time of the last change as C++ reads it: int64 nanoseconds, which wrap from 2262 on."""
    return (status.st_mtime_ns + (1 << 63)) % (1 << 64) - (1 << 63)


def is_inside(path: str, folder: str) -> bool:
    """Return whether a resolved path lies in a resolved folder."""
    return path.startswith(folder.rstrip("/") + "/")


def leaves_folder(name: str) -> bool:
    """Return whether a path relative to a folder is absolute or names something outside, as ``../x`` does."""
    return os.path.normpath(name).startswith(("/", "../")) or os.path.normpath(name) == ".."


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode a text, which may have half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable_name(name: str) -> str:
    """Return a file name as text, with escapes for bytes that are not UTF-8."""
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can spell it, and it stands for no byte
        return name.encode("utf-8", "backslashreplace").decode()


def parse_byte_size(option: str, value: str | int) -> int:
    """Return the number of bytes that a text such as 256MB, 1.5 GiB or 1000000 names."""
    # M is 10^6 and Mi is 2^20. The error names the option.
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?|)B?\s*", str(value).upper())
    if match is None or (size := int(Fraction(match[1]) * _UNITS[match[2]])) < 1:
        raise ConfigError(f"{option} must be a number of bytes such as 256MB or 1GiB, found {value!r}")
    return size


def check_named(**paths: str | os.PathLike[str] | None) -> None:
    """Check that no path is empty, as the value of an unset shell variable is; None is allowed."""
    for name, path in paths.items():
        if path is not None and not os.fspath(path):
            raise ConfigError(f"{name} is empty, and names no path", hint="The current folder is called .")


def is_of_machine(reason: str) -> bool:
    """Return whether a read failed because of the machine: the words of such an errno end its reason."""
    path, _, words = reason.rpartition(": ")
    if words == _GONE and path:  # a share vanishes with its folders
        return not Path(path).parent.is_dir()
    return words in _OF_THE_MACHINE or words == NO_MEMORY


def reason_of(error: BaseException) -> str:
    """Return the reason of a failed read, in the words of :func:`is_of_machine`."""
    if isinstance(error, MemoryError):
        return NO_MEMORY
    return str(error) if (number := getattr(error, "errno", None)) is None else os.strerror(number)


def check_resources(error: BaseException, path: object) -> None:
    """Raise StorageError if a read failed because the process has no more memory or descriptors."""
    if isinstance(error, StorageError):
        raise error
    if (reason := reason_of(error)) in _RESOURCES:
        raise storage_error(reason, path, hint="") from error


def storage_error(reason: str, path: object = None, *, hint: str, key: str | None = None) -> StorageError:
    """Return the error of a read that failed because of the machine; ``hint`` is for a storage that fails."""
    hint = _RESOURCES.get(reason.rpartition(": ")[2], hint)
    return StorageError(f"the storage or the machine fails: {reason}", path=path, key=key, hint=hint)


_NAMED = 5  # names of a folder in a message
_ARCHIVES = (".zip", ".7z", ".rar", ".gz", ".bz2", ".xz", ".zst")
_OF_SYSTEMS = {"__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information", "lost+found", "__pycache__"}


def is_hidden(name: str) -> bool:
    """Return whether a file or folder of this name is hidden, or made by a system and not by its user."""
    return name.startswith(".") or name in _OF_SYSTEMS


def check_unpacked(path: str | os.PathLike[str]) -> None:
    """Raise SourceError for an archive that is not read, such as a zip."""
    if os.fspath(path).lower().endswith(_ARCHIVES):
        raise SourceError(
            "the file is packed, and what it holds is not read in place",
            path=path,
            hint="Unpack it first, such as with unzip or 7z, and name the folder or file that it held.",
        )


def missing_path(path: str | os.PathLike[str]) -> tuple[str, str] | None:
    """Return a message and a hint, with the nearest name, for a path that is not there."""
    file = Path(path).absolute()
    if os.path.lexists(file):
        return None
    while not file.parent.is_dir():
        file = file.parent
    names: list[str] = []
    with suppress(OSError):
        names = sorted(name for name in os.listdir(file.parent) if not is_hidden(name))  # noqa: PTH208 - a text
    near = difflib.get_close_matches(file.name, names, 1)
    shown = ", ".join(names[:_NAMED]) or "no files"
    hint = (
        f"Did you mean {file.parent / near[0]}?"
        if near
        else f"It has {shown}{' and more' if len(names) > _NAMED else ''}."
    )
    return f"there is no {file.name} in {file.parent}", hint


@contextmanager
def read_errors(path: object) -> Iterator[None]:
    """Raise StorageError for an error of the operating system, such as denied permission."""
    try:
        yield
    except StokerError:
        raise
    except OSError as error:
        hint = "Make it readable, and try again."
        raise storage_error(reason_of(error), error.filename or path, hint=hint) from error


@contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[tuple[int, int]]:
    """Open a regular file for reading and yield (descriptor, size in bytes)."""
    # A FIFO without a writer would block a plain open for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def read_at(descriptor: int, offset: int, length: int) -> bytes:
    """Return ``length`` bytes at ``offset``, or fewer at the end of the file."""
    data = os.pread(descriptor, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]
    done = len(data)
    while done < length and (data := os.pread(descriptor, length - done, offset + done)):
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def read_regular(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Return the content of a regular file, or its first ``most`` bytes."""
    with open_regular(path) as (descriptor, size):
        return read_at(descriptor, 0, size if most is None else min(size, most))


def digest_of(crc: int) -> str:
    """Return a CRC32C as manifests state it: ``crc32c:`` and eight hexadecimal digits."""
    return f"crc32c:{crc:08x}"


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return the digest of a whole file, see :func:`digest_of`."""
    crc = 0
    for block in _blocks(path):
        crc = crc32c(block, crc)
    return digest_of(crc)


class FileDigests(NamedTuple):
    """Two digests of a file."""

    crc: str  # CRC32C, see :func:`digest_of`
    sha256: str  # SHA-256, 64 hexadecimal digits


def file_digests(path: str | os.PathLike[str]) -> FileDigests:
    """Return the digests of a whole file, which is read once."""
    crc, sha256 = 0, hashlib.sha256()
    for block in _blocks(path):
        crc = crc32c(block, crc)
        sha256.update(block)
    return FileDigests(digest_of(crc), sha256.hexdigest())


def _blocks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    # Holes, as in an LMDB file of the size of its map, are not read.
    zeros = bytes(_BLOCK)
    with open_regular(path) as (descriptor, size):
        offset = 0
        while offset < size:
            try:
                data = os.lseek(descriptor, offset, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # ENXIO: a hole up to the end
                    raise
                data = size
            while offset < data:
                yield zeros[: data - offset]
                offset = min(offset + _BLOCK, data)
            end = os.lseek(descriptor, data, os.SEEK_HOLE) if data < size else size
            while offset < end and (block := os.pread(descriptor, min(_BLOCK, end - offset), offset)):
                yield block
                offset += len(block)
            if offset < end:  # the file became shorter
                return


@contextmanager
def folder_lock(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a folder that is written into; ``wait`` until it is free, or raise LockedError."""
    # The kernel holds the lock (flock(2)) and releases it when the process ends, however it ends. A lock file
    # that is left over locks no other process out.
    path = folder / LOCK_NAME
    descriptor = _acquire(path, wait=wait)
    try:
        yield
    finally:
        try:  # before the lock is released, so that a process that has the file open sees that it is gone
            with suppress(OSError):
                path.unlink()
        finally:
            os.close(descriptor)


def is_one_of_ranks() -> bool:
    """Whether a launcher has started this process as one of several that run the same program."""
    names = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
    return any(os.environ.get(name, "").isdecimal() and int(os.environ[name]) > 1 for name in names)


def _acquire(path: Path, *, wait: bool) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            _lock(descriptor, path.parent, wait=wait)
            if _is_same_file(descriptor, path):
                return descriptor
        except BaseException as error:  # after an interrupt, too, this process must not keep the lock
            os.close(descriptor)
            if isinstance(error, OSError) and error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise LockedError(
                    "another process is writing into this folder",
                    path=path.parent,
                    hint="Wait until it has ended, or name another folder.",
                ) from error
            raise
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, *, wait: bool) -> None:
    """Lock a file; where its file system has no locks, as Lustre without -o flock, say so and go on."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        message = (
            f"{folder} is on a file system without locks ({error.strerror}): let one process write there"
        )
        _LOG.warning(f"lock {folder}", message)


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
            hint="Name another folder.",
        ) from None


@contextmanager
def os_errors(folder: Path, *, resumes: bool = True) -> Iterator[None]:
    """Raise a WriteError, with advice, for an error of the operating system during a write into a folder."""
    # ``resumes`` says whether the command resumes when it is run again.
    try:
        yield
    except StokerError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise WriteError(
            "the disk is full" if full else f"the dataset cannot be written: {error.strerror or error}",
            path=error.filename or folder,
            hint=f"{'Make room' if full else 'Allow the write'}, then "
            + ("run the same command again: it resumes." if resumes else "write all samples again."),
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
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.rename(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def move_durably(source: Path, target: Path) -> None:
    """Rename a file or folder that has been synced, over one at ``target``; the caller syncs the folder."""
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    source.rename(target)


def remove(path: Path) -> None:
    """Remove a file, or a folder and its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Return the folder of Stoker's caches, which need not exist."""
    # It is ``$STOKER_CACHE``, or ``stoker`` in the user's cache folder, which is ``$XDG_CACHE_HOME`` or
    # ``~/.cache`` (XDG Base Directory Specification 0.8). As there, relative paths are ignored.
    if (folder := Path(os.environ.get("STOKER_CACHE", ""))).is_absolute():
        return folder
    if (folder := Path(os.environ.get("XDG_CACHE_HOME", ""))).is_absolute():
        return folder / "stoker"
    # Where a container has no home, the folder cannot be made, as in a home that cannot be written.
    with suppress(RuntimeError):
        return Path.home() / ".cache" / "stoker"
    return Path(os.devnull, "stoker")


def temporary_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Make a folder that is removed when it is closed; WriteError says what to do where none can be made."""
    try:
        return tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise WriteError(
            f"no temporary folder can be made: {error.strerror or error}",
            path=error.filename,
            hint="Set TMPDIR to a folder that can be written. STOKER_CACHE names the folder of caches.",
        ) from error
