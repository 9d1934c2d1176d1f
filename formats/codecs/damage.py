"""Checks that the bytes of an encoded image are whole, without decoding a pixel."""

from __future__ import annotations

import zlib

__all__ = ["jpeg_damage", "png_damage", "webp_damage"]

_CUT_OFF = "the file ends before the image does"
_END_OF_IMAGE = b"\xff\xd9"


def jpeg_damage(data: bytes) -> str:
    """Return what is wrong with a JPEG that has no end marker after its pixels; empty if nothing is."""
    # Cameras append data of their own after the end marker.
    if data.endswith(_END_OF_IMAGE) or data.find(_END_OF_IMAGE, _start_of_scan(data)) >= 0:
        return ""
    return _CUT_OFF


def _start_of_scan(data: bytes) -> int:
    """Return where the entropy-coded data begin: a thumbnail before them has an end marker, too."""
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
    """Return what is wrong with a PNG whose chunks end early or do not match their checksums; or empty."""
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
    """Return what is wrong with a WebP that is shorter than its header says; empty if nothing is."""
    return "" if int.from_bytes(data[4:8], "little") + 8 <= len(data) else _CUT_OFF
