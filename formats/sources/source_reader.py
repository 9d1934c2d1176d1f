"""Reading the image files of a source, which may be broken or hostile.

The reader opens no file that could block, and returns a file whole or not at all.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from stoker.errors import DecodeError, ImageTooLargeError
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


@contextmanager
def _opened(root: str, key: str, *, follow_links: bool = True) -> Iterator[int]:
    """Open a file; an error of the operating system becomes a SkippedError."""
    path = os.path.join(root, key)  # noqa: PTH118 - a path object would take longer than reading
    # A folder of the path may have become a link since it was listed; an absolute path is its user's choice.
    if not follow_links and not key.startswith("/") and os.path.realpath(path) != path:
        raise SkippedError("link", "")
    try:
        descriptor = os.open(path, _OPEN_FLAGS | (0 if follow_links else os.O_NOFOLLOW))
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        is_link = error.errno == errno.ELOOP and not follow_links
        reason = ("link", "") if is_link else ("unreadable", error.strerror or "")
        raise SkippedError(*reason) from error


def looks_like_image(root: str, key: str, *, follow_links: bool = True) -> bool:
    """Whether the first bytes of a file are those of an image; False where it cannot be read."""
    try:
        with _opened(root, key, follow_links=follow_links) as descriptor:
            return is_regular(os.fstat(descriptor)) and _starts_image(descriptor)
    except SkippedError:
        return False


def _starts_image(descriptor: int) -> bool:
    return is_image_start(os.pread(descriptor, SIGNATURE_BYTES, 0))


def _checked(data: bytes) -> bytes:
    if not is_image_start(data[:SIGNATURE_BYTES]):
        raise SkippedError("not an image", "")
    return data


def _check_size(found: int, listed: int) -> None:
    if found != listed:
        raise SkippedError("changed since it was listed", f"{listed} bytes, then {found}")


def read_source_file(root: str, key: str, size: int, *, follow_links: bool = True) -> bytes:
    """Read a file under ``root``, a resolved folder or a URL, that had ``size`` bytes when it was listed."""
    if size > _LONGEST:
        raise SkippedError("larger than 2 GiB", "")
    if is_url(root):
        data = _store(root).read_if_there(key, most=size + 1)  # one more byte shows that the file has grown
        if data is None:
            raise SkippedError("unreadable", "No such file or directory")
        _check_size(len(data), size)
        return _checked(data)
    with _opened(root, key, follow_links=follow_links) as descriptor:
        # The start of a large file shows whether the rest need be read.
        if size > 1 << 20 and not _starts_image(descriptor):
            raise SkippedError("not an image", "")
        return _checked(_read(descriptor, size, 0, size))


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
        with _opened("", file) as descriptor:
            data = _read(descriptor, file_size, offset, stored)
    if pieces > 1:
        from ..containers.recordio import join_pieces

        data = join_pieces(data)
    return _checked(data)


def _read(descriptor: int, file_size: int, offset: int, length: int) -> bytes:
    status = os.fstat(descriptor)
    if not is_regular(status):
        raise SkippedError("not a regular file", "")
    _check_size(status.st_size, file_size)
    data = read_at(descriptor, offset, length)
    if len(data) < length:
        raise SkippedError("changed since it was listed", "it became shorter while it was read")
    return data


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
