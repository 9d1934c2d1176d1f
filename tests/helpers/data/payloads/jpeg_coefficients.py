"""A slow reader of sequential JPEGs: their segments and their quantised coefficients (ITU-T T.81)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_ALONE = {0x01, *range(0xD0, 0xD9)}


def segments(data: bytes) -> list[tuple[int, bytes]]:
    """Return marker and content of each segment up to the scan, and the scan as content of marker 0."""
    found, offset = [], 2
    while True:
        marker = data[offset + 1]
        assert data[offset] == 0xFF
        if marker in _ALONE:
            offset += 2
            continue
        length = int.from_bytes(data[offset + 2 : offset + 4], "big")
        found.append((marker, data[offset + 4 : offset + 2 + length]))
        offset += 2 + length
        if marker == 0xDA:
            return [*found, (0, data[offset:])]


def restart_interval(data: bytes) -> int:
    """Return the MCUs between two restart markers; 0 if there are none."""
    return next((int.from_bytes(body, "big") for marker, body in segments(data) if marker == 0xDD), 0)


@dataclass
class Component:
    """One component of a frame, and its coefficients, (rows, columns, 64) in the order of the file."""

    h: int
    v: int
    table: int
    dc: int = 0
    ac: int = 0
    blocks: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))


class _Bits:
    """The bits of one restart interval, without stuffed bytes."""

    def __init__(self, data: bytes) -> None:
        self._bits = "".join(f"{byte:08b}" for byte in data.replace(b"\xff\x00", b"\xff"))
        self._at = 0

    def read(self, count: int) -> int:
        bits = self._bits[self._at : self._at + count]
        assert len(bits) == count, "the interval ends early"
        self._at += count
        return int(bits, 2) if bits else 0

    def symbol(self, codes: dict[str, int]) -> int:
        for length in range(1, 17):
            symbol = codes.get(self._bits[self._at : self._at + length])
            if symbol is not None:
                self._at += length
                return symbol
        raise AssertionError("no such code")

    def number(self, size: int) -> int:
        value = self.read(size)
        return value if not size or value >> (size - 1) else value - (1 << size) + 1

    @property
    def left(self) -> str:
        return self._bits[self._at :]


def coefficients(data: bytes) -> list[npt.NDArray[np.int32]]:
    """Return the coefficients of each component, (rows, columns, 64), of all blocks that hold pixels."""
    components: dict[int, Component] = {}
    codes: dict[tuple[int, int], dict[str, int]] = {}
    interval = height = width = 0
    order: list[Component] = []
    for marker, body in segments(data):
        if marker in (0xC0, 0xC1):
            height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
            for at in range(6, len(body), 3):
                components[body[at]] = Component(body[at + 1] >> 4, body[at + 1] & 15, body[at + 2])
        elif marker == 0xC4:
            codes |= _tables(body)
        elif marker == 0xDD:
            interval = int.from_bytes(body, "big")
        elif marker == 0xDA:
            for at in range(1, 1 + 2 * body[0], 2):
                component = components[body[at]]
                component.dc, component.ac = body[at + 1] >> 4, body[at + 1] & 15
                order.append(component)
        elif marker == 0:
            assert len(order) == len(components), "several scans"
            return _scan(body, order, codes, interval, (height, width))
    raise AssertionError("no scan")


def _tables(body: bytes) -> dict[tuple[int, int], dict[str, int]]:
    found = {}
    while body:
        counts, symbols = body[1:17], body[17 : 17 + sum(body[1:17])]
        code, at, table = 0, 0, {}
        for length, count in enumerate(counts, 1):
            for _ in range(count):
                table[f"{code:0{length}b}"] = symbols[at]
                code, at = code + 1, at + 1
            code <<= 1
        found[(body[0] >> 4, body[0] & 15)] = table
        body = body[17 + len(symbols) :]
    return found


def _scan(
    body: bytes,
    order: list[Component],
    codes: dict[tuple[int, int], dict[str, int]],
    interval: int,
    size: tuple[int, int],
) -> list[npt.NDArray[np.int32]]:
    h, v = max(part.h for part in order), max(part.v for part in order)
    if len(order) == 1:
        h = v = order[0].h = order[0].v = 1
    rows, columns = -(-size[0] // (8 * v)), -(-size[1] // (8 * h))
    for component in order:
        component.blocks = np.zeros((rows * component.v, columns * component.h, 64), np.int32)
    body = body[: body.rindex(b"\xff\xd9")]
    intervals = re.split(rb"\xff[\xd0-\xd7]", body)
    marks = [int(mark[1]) - 0xD0 for mark in re.findall(rb"\xff[\xd0-\xd7]", body)]
    assert marks == [number % 8 for number in range(len(marks))]
    step = interval or rows * columns
    assert len(intervals) == -(-rows * columns // step)
    for number, interval_bytes in enumerate(intervals):
        bits, last = _Bits(interval_bytes), [0] * len(order)
        for mcu in range(number * step, min((number + 1) * step, rows * columns)):
            for i, part in enumerate(order):
                tables = codes[0, part.dc], codes[1, part.ac]
                for y in range(part.v):
                    for x in range(part.h):
                        block = part.blocks[mcu // columns * part.v + y, mcu % columns * part.h + x]
                        last[i] = _block(bits, *tables, last[i], block)
        assert len(bits.left) < 8
        assert set(bits.left) <= {"1"}
    shown = [(-(-size[0] * part.v // (8 * v)), -(-size[1] * part.h // (8 * h))) for part in order]
    return [part.blocks[:height, :width] for part, (height, width) in zip(order, shown, strict=True)]


def _block(
    bits: _Bits, dc: dict[str, int], ac: dict[str, int], last: int, block: npt.NDArray[np.int32]
) -> int:
    block[0] = last + bits.number(bits.symbol(dc))
    index = 1
    while index < 64:
        symbol = bits.symbol(ac)
        run, size = symbol >> 4, symbol & 15
        if not size and run < 15:
            break
        index += run
        block[index] = bits.number(size)
        index += 1
    return int(block[0])
