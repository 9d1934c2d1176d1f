"""Headers of tar archives: the fields of a block, and the records of a PAX extension.

The format is that of POSIX.1-2017 (pax, "ustar Interchange Format" and "pax Header Block"), with the
extensions of GNU tar (its manual, "Basic Tar Format"). Nothing is allocated for a number in a header.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import NamedTuple

BLOCK = 512
"""Bytes of a header; members start at multiples of it."""

_FIELDS = struct.Struct("100s24x12s12x8s1s100x8s80x155s12x")  # name, size, checksum, type, magic, prefix
_USTAR = b"ustar\0"  # GNU tar's magic is another one, and its headers have no prefix
_OCTAL = re.compile(rb" *([0-7]+)[ \0]*|[ \0]*")
_MOST_DIGITS = 20  # of the length of a PAX record


class BadArchiveError(Exception):
    """A fault of an archive."""

    def __init__(self, message: str, hint: str = "restore the archive, or write it again") -> None:
        super().__init__(message)
        self.hint = hint
        self.key: str | None = None


class TarHeader(NamedTuple):
    """One header block."""

    name: bytes  # Path of the member, as far as the block holds it
    size: int  # Bytes that follow, as the block states them
    kind: bytes  # Type flag, one byte
    block: bytes  # The whole block


def parse_header(block: bytes) -> TarHeader:
    """Return the header in a block of 512 bytes."""
    name, size, checksum, kind, magic, prefix = _FIELDS.unpack(block)
    stated = _number(checksum) + sum(checksum) - 8 * 0x20  # the sum has spaces in place of the checksum
    # The low half of Adler-32 is one more than the sum of the bytes, modulo 65521, and far faster than a sum.
    if zlib.adler32(block) & 0xFFFF != (stated + 1) % 65521 and stated != _signed_sum(block):
        raise BadArchiveError("the checksum of a header does not match")
    name = name.partition(b"\0")[0]
    if prefix[0] and magic[:6] == _USTAR:
        name = prefix.partition(b"\0")[0] + b"/" + name
    return TarHeader(name, _number(size), kind, block)


def _signed_sum(block: bytes) -> int:
    """Return the sum of bytes from -128 to 127, as old tars compute it."""
    return sum(block) - 256 * sum(value > 127 for value in block)


def _number(field: bytes) -> int:
    """Return a number: octal digits or, if the first bit is set, the other bits (GNU tar)."""
    if (digits := field[:-1]).isdigit() and not field[-1]:
        try:
            return int(digits, 8)
        except ValueError:
            raise BadArchiveError(f"a header has {text_of(field)!r} in place of a number") from None
    if field[0] & 0x80:
        if field[0] & 0x40:
            raise BadArchiveError("a header has a negative number")
        return int.from_bytes(field, "big") - (0x80 << 8 * (len(field) - 1))
    match = _OCTAL.fullmatch(field)
    if match is None:
        raise BadArchiveError(f"a header has {text_of(field)!r} in place of a number")
    return int(match[1] or b"0", 8)


def parse_pax(data: bytes) -> dict[bytes, bytes]:
    """Return the records of a PAX extension, by keyword."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(data) and data[at]:
        space = data.find(b" ", at, at + _MOST_DIGITS)
        digits = data[at : max(space, at)]
        end = at + int(digits) if digits.isdigit() else 0
        if not space < end <= len(data) or data[end - 1 : end] != b"\n":
            raise BadArchiveError("a PAX header has a record that is not whole")
        keyword, equals, value = data[space + 1 : end - 1].partition(b"=")
        if not equals:
            raise BadArchiveError("a PAX header has a record without a value")
        records[keyword] = value
        at = end
    return records


def text_of(name: bytes) -> str:
    """Return a name as text, with escapes for bytes that are not UTF-8."""
    return name.decode(errors="backslashreplace")
