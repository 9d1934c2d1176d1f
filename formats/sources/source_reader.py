"""Reading the files of a source, which nobody vouches for.

Never a file outside of it, never one that blocks, and each whole or not at all.
"""

from __future__ import annotations

import errno
import os
import zlib
from functools import lru_cache

from stoker.errors import DecodeError, ImageTooLargeError

from ..codecs.codec import Codec
from ..codecs.header import Header, read_header
from ..files.paths import is_inside, is_regular
from ..remote.store import Store, is_url

__all__ = ["SkippedError", "check_image", "looks_like_image", "read_source"]

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
# A protocol buffer message is shorter than 2 GiB.
_LONGEST = (1 << 31) - (1 << 16)
_HEAD = 32
_CUT_OFF = "the file ends before the image does"
_MAGIC = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"BM",
    b"GIF87a",
    b"GIF89a",
    b"II*\0",
    b"MM\0*",
    *(b"P%d" % kind for kind in range(1, 7)),
    b"\0\0\0\x0cjP  \r\n\x87\n",
    b"\xff\x4f\xff\x51",
)


class SkippedError(Exception):
    """A file is left out; ``args`` are reason and detail of a ``Skip``."""


def is_image_head(head: bytes) -> bool:
    """Whether a file that starts with these bytes, 32 or all of it, may be an image of a known format."""
    return (
        head.startswith(_MAGIC)
        or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
        or (head[4:8] == b"ftyp" and b"avi" in head[8:])
    )


def _open(root: str, key: str) -> int:
    path = os.path.join(root, key)  # noqa: PTH118 - a path object a file costs more than reading it
    try:
        return os.open(path, _FLAGS)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    target = os.path.realpath(path)
    if not is_inside(target, root):
        raise SkippedError("link that leaves the source", "")
    return os.open(target, _FLAGS)


def looks_like_image(root: str, key: str) -> bool:
    """Whether the first bytes of a file are those of an image; False where it cannot be read."""
    try:
        descriptor = _open(root, key)
    except (OSError, SkippedError):
        return False
    try:
        return is_regular(os.fstat(descriptor)) and is_image_head(os.pread(descriptor, _HEAD, 0))
    except OSError:
        return False
    finally:
        os.close(descriptor)


def read_source(root: str, key: str, size: int) -> bytes:
    """Read a file of a source.

    Args:
        root: The source's folder, resolved; or its URL.
        key: Path of the file in it; a link may lead to a file in the same folder.
        size: Bytes that the file had when the conversion was planned.

    Raises:
        SkippedError: It cannot be read, has changed, is too large, or is no image.
    """
    if is_url(root):
        return _read_remote(root, key, size)
    try:
        descriptor = _open(root, key)
        try:
            return _read(descriptor, size)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SkippedError("unreadable", error.strerror or "") from error


def _read(descriptor: int, size: int) -> bytes:
    status = os.fstat(descriptor)
    if not is_regular(status):
        raise SkippedError("not a regular file", "")
    if status.st_size != size:
        raise SkippedError("changed since it was listed", f"{size} bytes, then {status.st_size}")
    # Of a large file that is no image only the start is read.
    if size > _LONGEST or (size > 1 << 20 and not is_image_head(os.pread(descriptor, _HEAD, 0))):
        raise SkippedError("not an image" if size <= _LONGEST else "larger than 2 GiB", "")
    data = os.read(descriptor, size)
    while len(data) < size:
        more = os.read(descriptor, size - len(data))
        if not more:
            raise SkippedError("changed since it was listed", "it became shorter while it was read")
        data += more
    if not is_image_head(data[:_HEAD]):
        raise SkippedError("not an image", "")
    return data


def _read_remote(url: str, key: str, size: int) -> bytes:
    if size > _LONGEST:
        raise SkippedError("larger than 2 GiB", "")
    data = _store(url).read_if_there(key, most=size + 1)  # one more tells that it has grown
    if data is None:
        raise SkippedError("unreadable", "No such file or directory")
    if len(data) != size:
        raise SkippedError("changed since it was listed", f"{size} bytes, then {len(data)}")
    if not is_image_head(data[:_HEAD]):
        raise SkippedError("not an image", "")
    return data


@lru_cache(maxsize=16)
def _store(url: str) -> Store:
    return Store(url)


def check_image(data: bytes, max_pixels: int) -> Header:
    """Read the header of an image and see that the file is whole, as far as its codec lets that be told.

    No pixel is decoded: JPEG and WebP must go to their end, and the chunks of PNG match their checksums.

    Raises:
        SkippedError: The image is broken, cut off or too large.
    """
    try:
        header = read_header(data)
    except ImageTooLargeError as error:
        raise SkippedError("too many pixels", error.message) from error
    except DecodeError as error:
        raise SkippedError("broken image", error.message) from error
    if header.height * header.width > max_pixels:
        raise SkippedError("too many pixels", f"{header.width} x {header.height}, more than {max_pixels}")
    if damage := _damage(data, header.codec):
        raise SkippedError("broken image", damage)
    return header


def _damage(data: bytes, codec: Codec) -> str:
    whole = True
    if codec == Codec.JPEG:
        # Cameras append things of their own after the end marker.
        whole = data.endswith(b"\xff\xd9") or data.find(b"\xff\xd9", _start_of_scan(data)) >= 0
    elif codec == Codec.WEBP:
        whole = int.from_bytes(data[4:8], "little") + 8 <= len(data)
    elif codec == Codec.PNG:
        return _damage_of_png(data)
    return "" if whole else _CUT_OFF


def _damage_of_png(data: bytes) -> str:
    at, kind = 8, b""
    while kind != b"IEND":
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 8 + length
        if end + 4 > len(data):
            return _CUT_OFF
        if zlib.crc32(memoryview(data)[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            return f"the checksum of its chunk {kind.decode('ascii', 'replace')} does not match"
        at = end + 4
    return ""


def _start_of_scan(data: bytes) -> int:
    """Where the entropy-coded data of a JPEG begin: a thumbnail before it has an end marker too."""
    at = 2
    while 0 <= at < len(data) - 4:
        marker = data[at + 1]
        if data[at] != 0xFF:
            at = data.find(b"\xff", at)
        elif marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD8:
            at += 1 if marker == 0xFF else 2
        elif marker == 0xDA:
            return at
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return len(data)
