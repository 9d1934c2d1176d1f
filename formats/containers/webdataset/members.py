"""The members of a tar archive in a file, at a URL or in memory; only its headers are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..base import Read
from .headers import BLOCK, BadArchiveError, TarHeader, parse_header, parse_pax, text_of


class Member(NamedTuple):
    """One member of an archive."""

    start: int  # Offset of its first header
    name: str  # Its path, which is never opened
    kind: str  # Its type, such as "link"; empty for a regular file
    offset: int  # Offset of its first byte
    length: int  # Its bytes


_LONGEST_EXTENSION = 1 << 20  # bytes of a long name or of a PAX header
_TAIL = 1 << 20  # bytes after the end that are looked at
_ZERO = bytes(BLOCK)
_PLAIN = b"0"
_REGULAR = b"0\0007"
_KINDS = {b"1": "link", b"2": "link", b"3": "device", b"4": "device", b"5": "folder", b"6": "pipe"}
_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_LINK = b"xX", b"g", b"L", b"K"
_EXTENSIONS = _PAX + _PAX_GLOBAL + _LONG_NAME + _LONG_LINK
_SPARSE = b"S"
_SPARSE_CONTINUES = 482  # in a header; 504 in each block that follows it
_SPARSE_BLOCK_CONTINUES = 504
_COMPRESSIONS = {
    b"\x1f\x8b": "gzip -d",
    b"\x28\xb5\x2f\xfd": "zstd -d",
    b"\xfd7zXZ\0": "xz -d",
    b"BZh": "bzip2 -d",
}


def compression(start: bytes) -> str | None:
    """Return the command that decompresses a file with these first bytes; None for another file."""
    return next((command for magic, command in _COMPRESSIONS.items() if start.startswith(magic)), None)


def find_members(read: Read, size: int) -> Iterator[Member]:
    """Yield the members of an archive of ``size`` bytes in their order, without folders."""
    at = start = 0
    name: bytes | None = None
    pax: Mapping[bytes, bytes] = {}
    while (block := read(at, BLOCK)) != _ZERO:
        if len(block) < BLOCK:
            raise _cut_short(block)
        header = parse_header(block)
        data = at + BLOCK
        if header.kind in _EXTENSIONS:
            content = _extension(read, data, header.size)
            if header.kind in _PAX:
                pax = {**pax, **parse_pax(content)}
            elif header.kind == _PAX_GLOBAL:
                _check_global(parse_pax(content))
            elif header.kind == _LONG_NAME:
                name = content.partition(b"\0")[0]
            at = data + _padded(header.size)
            continue
        if name is None and not pax and header.kind in _PLAIN and not header.name.endswith(b"/"):
            member = Member(start, text_of(header.name), "", data, header.size)  # most members, and fast
        else:
            member = _member(read, start, data, header._replace(name=name or header.name), pax)
        if member.offset + member.length > size:
            raise BadArchiveError(
                f"member {member.name} claims {member.length} bytes where {max(size - member.offset, 0)} are "
                "left"
            )
        if member.kind != "folder":
            yield member
        at = start = member.offset + _padded(member.length)
        name, pax = None, {}
    _check_tail(read, at)


def _cut_short(block: bytes) -> BadArchiveError:
    where = "within a header" if block else "without the two blocks of zeros that end an archive"
    return BadArchiveError(
        f"the archive is cut short: it ends {where}",
        "copy the archive again; if its writer left the end out, append 1024 zero bytes",
    )


def _member(read: Read, start: int, data: int, header: TarHeader, pax: Mapping[bytes, bytes]) -> Member:
    """Return the member that a header and the extensions before it describe."""
    name = pax.get(b"GNU.sparse.name", pax.get(b"path", header.name))
    size = header.size
    if (stated := pax.get(b"size")) is not None:
        if not re.fullmatch(rb"\d{1,19}", stated):
            raise BadArchiveError(f"a PAX header has {text_of(stated)!r} in place of a size")
        size = int(stated)
    kind = _KINDS.get(header.kind, "" if header.kind in _REGULAR else "member of another type")
    if header.kind in _REGULAR and name.endswith(b"/"):  # before POSIX, folders had no type
        kind = "folder"
    if header.kind == _SPARSE:
        data = _behind_sparse_map(read, data, header)
    if header.kind == _SPARSE or any(keyword.startswith(b"GNU.sparse.") for keyword in pax):
        kind = "sparse file"
    if header.kind in _KINDS:
        size = 0  # as in GNU tar: the size of a link is that of its target
    return Member(start, text_of(name), kind, data, size)


def _extension(read: Read, offset: int, size: int) -> bytes:
    if size > _LONGEST_EXTENSION:
        raise BadArchiveError(f"a header of {size} bytes, more than {_LONGEST_EXTENSION}")
    content = read(offset, size)
    if len(content) < size:
        raise BadArchiveError("the archive is cut short: it ends within a header")
    return content


def _check_global(records: Mapping[bytes, bytes]) -> None:
    """Refuse a global header that changes members; comments and times, as git writes them, do not."""
    for keyword in records:
        if keyword in (b"path", b"size") or keyword.startswith(b"GNU.sparse."):
            raise BadArchiveError(f"a global PAX header sets {text_of(keyword)} of all members")


def _behind_sparse_map(read: Read, at: int, header: TarHeader) -> int:
    """Return the offset after the blocks that continue the map of a sparse file."""
    goes_on = header.block[_SPARSE_CONTINUES]
    while goes_on:
        block = read(at, BLOCK)
        if len(block) < BLOCK:
            raise BadArchiveError("the archive is cut short: it ends within a header")
        goes_on = block[_SPARSE_BLOCK_CONTINUES]
        at += BLOCK
    return at


def _padded(size: int) -> int:
    return (size + BLOCK - 1) & -BLOCK


def _check_tail(read: Read, at: int) -> None:
    """Refuse members after the end of an archive, which readers of tar leave out."""
    if read(at, _TAIL).strip(b"\0"):
        raise BadArchiveError(
            "bytes follow the end of the archive, as if archives were joined by cat",
            "name each archive by itself, or join them by: tar --concatenate",
        )
