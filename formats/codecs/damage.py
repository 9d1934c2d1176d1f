"""Checks that an encoded image is whole, without decoding. Each returns the problem, or an empty text."""

from __future__ import annotations

import zlib

_CUT_OFF = "the file ends before the image does"
_END_OF_IMAGE = b"\xff\xd9"


def jpeg_damage(data: bytes) -> str:
    """Check that a JPEG has an end marker after its pixels."""
    # Cameras append other data after the end marker.
    if data.endswith(_END_OF_IMAGE) or data.find(_END_OF_IMAGE, _start_of_scan(data)) >= 0:
        return ""
    return _CUT_OFF


def _start_of_scan(data: bytes) -> int:
    """Return where the entropy-coded data begin; a thumbnail before them also has an end marker."""
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


def png_damage(data: bytes) -> str:
    """Check that no chunk of a PNG ends early, and that all of them match their checksums."""
    at, chunk = 8, b""
    while chunk != b"IEND":
        length, chunk = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 8 + length
        if end + 4 > len(data):
            return _CUT_OFF
        if zlib.crc32(memoryview(data)[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            return f"the checksum of its chunk {chunk.decode('ascii', 'replace')} does not match"
        at = end + 4
    return ""


def webp_damage(data: bytes) -> str:
    """Check that a WebP is as long as its header says."""
    return "" if int.from_bytes(data[4:8], "little") + 8 <= len(data) else _CUT_OFF
