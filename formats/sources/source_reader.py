"""Reading the image files of a source, which may be broken or hostile.

The reader opens no file that could block, and returns a file whole or not at all.
"""

from __future__ import annotations

import errno
import os
from functools import lru_cache

from stoker.errors import DecodeError, ImageTooLargeError, SourceError
from stoker.urls import is_url

from ..codecs.codec import SIGNATURE_BYTES, ImageHeader, is_image_start
from ..codecs.header import DAMAGE_CHECKS, read_header
from ..files import is_regular, read_at
from ..remote.store import Store

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# A protocol buffer message is shorter than 2 GiB.
_LONGEST = (1 << 31) - (1 << 16)
_BYTES_BETWEEN_PIECES = 4  # of a RecordIO file, after the magic number that starts a piece


class SkippedError(Exception):
    """The reason to leave a file out; ``args`` are the reason and the detail of a :class:`.listing.Skip`."""


def _open(root: str, key: str, follow_links: bool) -> int:
    path = os.path.join(root, key)  # noqa: PTH118 - a path object would take longer than reading
    if follow_links:
        return os.open(path, _OPEN_FLAGS)
    # A folder of the path may have become a link since it was listed; an absolute path is its user's choice.
    if not key.startswith("/") and os.path.realpath(path) != path:
        raise SkippedError("link", "")
    try:
        return os.open(path, _OPEN_FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SkippedError("link", "") from error
        raise


def looks_like_image(root: str, key: str, *, follow_links: bool = True) -> bool:
    """Whether the first bytes of a file are those of an image; False where it cannot be read."""
    try:
        descriptor = _open(root, key, follow_links)
    except (OSError, SkippedError):
        return False
    try:
        return is_regular(os.fstat(descriptor)) and is_image_start(os.pread(descriptor, SIGNATURE_BYTES, 0))
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _checked(data: bytes) -> bytes:
    if not is_image_start(data[:SIGNATURE_BYTES]):
        raise SkippedError("not an image", "")
    return data


def _check_unchanged(descriptor: int, size: int) -> None:
    status = os.fstat(descriptor)
    if not is_regular(status):
        raise SkippedError("not a regular file", "")
    if status.st_size != size:
        raise SkippedError("changed since it was listed", f"{size} bytes, then {status.st_size}")


def read_source_file(root: str, key: str, size: int, *, follow_links: bool = True) -> bytes:
    """Read a file under ``root``, a resolved folder or a URL, that had ``size`` bytes when it was listed."""
    if is_url(root):
        return _read_remote(root, key, size)
    try:
        descriptor = _open(root, key, follow_links)
        try:
            return _read(descriptor, size)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SkippedError("unreadable", error.strerror or "") from error


def read_byte_range(file: str, file_size: int, offset: int, size: int, pieces: int = 1) -> bytes:
    """Read an image of ``size`` bytes at an offset of a file or URL that had ``file_size`` bytes when listed.

    In a RecordIO file the image may lie in several pieces.
    """
    if size > _LONGEST:
        raise SkippedError("larger than 2 GiB", "")
    stored = size + (pieces - 1) * _BYTES_BETWEEN_PIECES
    if is_url(file):
        folder, _, name = file.rpartition("/")
        data = _store(folder).read_range(name, offset, offset + stored)
    else:
        data = _read_local_range(file, file_size, offset, stored)
    if pieces > 1:
        from ..containers.recordio import join_pieces

        data = join_pieces(data)
    return _checked(data)


def _read_local_range(file: str, file_size: int, offset: int, size: int) -> bytes:
    try:
        descriptor = os.open(file, _OPEN_FLAGS)
        try:
            _check_unchanged(descriptor, file_size)
            return read_at(descriptor, offset, size)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SkippedError("unreadable", error.strerror or "") from error


def _read(descriptor: int, size: int) -> bytes:
    _check_unchanged(descriptor, size)
    # The start of a large file shows whether the rest need be read.
    if size > _LONGEST or (size > 1 << 20 and not is_image_start(os.pread(descriptor, SIGNATURE_BYTES, 0))):
        raise SkippedError("not an image" if size <= _LONGEST else "larger than 2 GiB", "")
    data = os.read(descriptor, size)
    while len(data) < size:
        more = os.read(descriptor, size - len(data))
        if not more:
            raise SkippedError("changed since it was listed", "it became shorter while it was read")
        data += more
    return _checked(data)


def _read_remote(url: str, key: str, size: int) -> bytes:
    if size > _LONGEST:
        raise SkippedError("larger than 2 GiB", "")
    data = _store(url).read_if_there(key, most=size + 1)  # one more byte shows that the file has grown
    if data is None:
        raise SkippedError("unreadable", "No such file or directory")
    if len(data) != size:
        raise SkippedError("changed since it was listed", f"{size} bytes, then {len(data)}")
    return _checked(data)


@lru_cache(maxsize=16)
def _store(url: str) -> Store:
    return Store(url)


def check_image(data: bytes, max_pixels: int) -> ImageHeader:
    """Read the header of an image, and check that the file is whole where the codec allows it."""
    # No pixel is decoded: JPEG and WebP must have their end, and the chunks of PNG their checksums.
    try:
        header = read_header(data)
    except ImageTooLargeError as error:
        raise SkippedError("too many pixels", error.message) from error
    except DecodeError as error:
        raise SkippedError("broken image", error.message) from error
    if header.height * header.width > max_pixels:
        raise SkippedError("too many pixels", f"{header.width} x {header.height}, more than {max_pixels}")
    check = DAMAGE_CHECKS.get(header.codec)
    if check is not None and (damage := check(data)):
        raise SkippedError("broken image", damage)
    return header


def source_status(path: str, what: str) -> tuple[int, int]:
    """Bytes of a file, and its last change in nanoseconds since 1970; ``what`` names it in errors."""
    if is_url(path):
        folder, _, name = path.rpartition("/")
        if (there := Store(folder).status(name)) is None:
            raise SourceError(f"there is no such {what}", path=path, hint="Check the spelling of its name.")
        return there
    try:
        status = os.stat(path)  # noqa: PTH116 - a path or a string
    except OSError as error:
        raise SourceError(f"the {what} cannot be read: {error.strerror}", path=path) from error
    return status.st_size, status.st_mtime_ns
