"""Random damage of bytes, of the chunks of a PNG, and of JSON documents."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

Rng = np.random.Generator

_BYTES = tuple(map(bytes.fromhex, ("00", "01", "7f", "80", "ff", "ffd8", "ffd9", "ffd0", "ffda")))
_NUMBERS = (-1, 0, 1, 2, 127, 255, 1 << 15, (1 << 16) - 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40)
_NUMBERS = (*_NUMBERS, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_FORMATS = ("<H", ">H", "<I", ">I", "<Q", ">Q")
_ODD: tuple[Any, ...] = (None, True, False, *_NUMBERS, 0.5, -0.0, 1e300, -1e300, math.nan, math.inf, 10**400)
_TEXTS = ("", "\0", "0", "-1", "1e999", "a" * 5000, "\ud800", "../x", "/")
_ODD = (*_ODD, *_TEXTS, [], {}, [[]], {"": 0}, [0] * 99)


def pick(items: Sequence[Any], rng: Rng) -> Any:
    """Return one of the items."""
    return items[int(rng.integers(0, len(items)))]


def mutate(data: bytes, rng: Rng, edits: int = 5) -> bytes:
    """Return data with a few random edits, more of them at the start than elsewhere."""
    result = bytearray(data)
    for _ in range(int(rng.integers(1, edits + 1))):
        at = int(len(result) * rng.random() ** rng.integers(1, 4))
        match rng.integers(0, 8):
            case 0:
                result[at : at + 1] = bytes([int(rng.integers(0, 256))])
            case 1:
                chosen = pick(_BYTES, rng)
                result[at : at + len(chosen)] = chosen
            case 2:
                del result[at : at + int(rng.integers(1, 9))]
            case 3:
                result[at:at] = rng.bytes(int(rng.integers(1, 9)))
            case 4:
                del result[max(at, 3) :]
            case 5:
                begin = int(rng.integers(0, len(result) + 1))
                result[at:at] = result[begin : begin + int(rng.integers(1, 65))]
            case 6:
                result[at : at + 1] = bytes(
                    byte ^ 1 << int(rng.integers(0, 8)) for byte in result[at : at + 1]
                )
            case _:
                number(result, at, rng)
    return bytes(result)


def replace_words(data: bytes, words: Sequence[bytes], others: Sequence[bytes], rng: Rng) -> bytes:
    """Return data in which others stand for some words, with a few random edits in half of all cases."""
    for _ in range(int(rng.integers(0, 3))):
        word, other = (pick(some, rng) for some in (words, others))
        data = data.replace(word, other, int(rng.integers(1, 3)))
    return mutate(data, rng, edits=2) if rng.random() < 0.5 else data


def number(data: bytearray, at: int, rng: Rng) -> None:
    """Overwrite bytes, which may be a length or an offset, by a number."""
    layout = pick(_FORMATS, rng)
    size = struct.calcsize(layout)
    if at + size <= len(data):
        value = pick(_NUMBERS, rng)
        struct.pack_into(layout, data, at, value % (1 << 8 * size))


def with_right_checksums(png: bytes) -> bytes:
    """Return a damaged PNG in which all chunks that can be found have right checksums."""
    result, at = bytearray(png), 8
    while at + 12 <= len(result):
        end = at + 8 + int.from_bytes(result[at : at + 4], "big")
        if end + 4 > len(result):
            break
        result[end : end + 4] = zlib.crc32(result[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(result)


def mutate_document(document: Any, rng: Rng) -> Any:
    """Return a copy of a JSON document with a few members replaced, removed, repeated or renamed."""
    copy = json.loads(json.dumps(document))
    for _ in range(int(rng.integers(1, 4))):
        parents = [node for node in _nodes(copy) if isinstance(node, dict | list) and node]
        if not parents:
            break
        parent = pick(parents, rng)
        keys: list[Any] = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        key = pick(keys, rng)
        others = list(_nodes(copy))
        odd = json.loads(json.dumps(pick(_ODD, rng)))
        match rng.integers(0, 6):
            case 0 | 1 | 2:
                parent[key] = odd
            case 3:
                del parent[key]
            case 4:
                parent[key] = json.loads(json.dumps(pick(others, rng)))
            case _ if isinstance(parent, dict):
                parent[str(odd)] = parent.pop(key)
            case _:
                parent.insert(key, json.loads(json.dumps(parent[key])))
    return copy


def _nodes(value: Any) -> Any:
    """Yield a document and everything in it."""
    yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _nodes(inner)


def as_text(document: Any, rng: Rng) -> bytes:
    """Return a document as JSON, sometimes with damaged bytes."""
    text = json.dumps(document).encode()
    return mutate(text, rng, edits=2) if rng.random() < 0.3 else text
