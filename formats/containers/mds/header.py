"""The header of an MDS shard: the offsets of its samples, and the columns of each.

A shard is the number of samples N (uint32), N + 1 offsets (uint32), a description in JSON, and the samples
(``encode_joint_shard`` in streaming/base/format/mds/writer.py, mosaicml-streaming 0.13). All numbers are
little-endian. A sample is the sizes (uint32) of the columns without a fixed size, and the values of all
columns in the order of the description.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...files.reading import read_at

_COUNT = 4  # bytes of a number
_MOST_DESCRIPTION = 1 << 20  # bytes
_MOST_COLUMNS = 10_000
_START = b'{"'  # of the description


class BadShardError(ValueError):
    """The file is not a whole MDS shard; the message says what is wrong."""


@dataclass(frozen=True)
class Column:
    """A column: its name, its encoding, and the bytes of each value, or None if values differ in size."""

    name: str
    encoding: str
    size: int | None


@dataclass(frozen=True, eq=False)
class MDSHeader:
    """The header of a shard."""

    columns: tuple[Column, ...]  # The columns of each sample
    # (N + 1,) int64, the first byte of each sample, and the end of the last one
    offsets: npt.NDArray[np.int64]

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.offsets) - 1


def read_header(descriptor: int, size: int) -> MDSHeader:
    """Return the header of an open shard of ``size`` bytes."""
    count, first = _first_numbers(read_at(descriptor, 0, 2 * _COUNT))
    start = _description(count)
    if not start < first <= min(size, start + _MOST_DESCRIPTION):
        raise BadShardError(f"the header claims {count} samples, the first at byte {first}, in {size} bytes")
    data = read_at(descriptor, _COUNT, first - _COUNT)
    if len(data) < first - _COUNT:
        raise BadShardError("the file became shorter while it was read")
    offsets = np.frombuffer(data[: start - _COUNT], "<u4").astype(np.int64)
    if (np.diff(offsets) < 0).any():
        record = int(np.flatnonzero(np.diff(offsets) < 0)[0])
        raise BadShardError(f"the offsets descend: sample {record} ends before it starts")
    if offsets[-1] != size:
        raise BadShardError(f"the samples end at byte {offsets[-1]}, and the file has {size} bytes")
    try:
        described = json.loads(data[start - _COUNT :])
    except (ValueError, RecursionError) as error:
        raise BadShardError(f"the description of the columns is not JSON: {error}") from error
    return MDSHeader(parse_columns(described), offsets)


def _first_numbers(data: bytes) -> tuple[int, int]:
    """Return the number of samples and the offset of the first."""
    if len(data) < 2 * _COUNT:
        raise BadShardError(f"the file has {len(data)} bytes, fewer than a header")
    count, first = np.frombuffer(data, "<u4").tolist()
    return count, first


def _description(count: int) -> int:
    """Return the offset of the description in a shard with this number of samples."""
    return _COUNT * (count + 2)


def parse_columns(described: Any) -> tuple[Column, ...]:
    """Return the columns that a JSON object describes, of a shard or in ``index.json``."""
    description = described if isinstance(described, dict) else {}
    lists = [description.get(f"column_{part}") for part in ("names", "encodings", "sizes")]
    if description.get("format") != "mds" or not all(isinstance(one, list) for one in lists):
        raise BadShardError("the description is not that of MDS columns")
    names, encodings, sizes = (list(one) for one in lists if one is not None)
    if not len(names) == len(encodings) == len(sizes) <= _MOST_COLUMNS:
        raise BadShardError(
            f"the description has {len(names)} names and {len(encodings)} encodings of columns"
        )
    if not all(isinstance(text, str) for text in (*names, *encodings)) or len(set(names)) < len(names):
        raise BadShardError("the description has columns without a name, or two of one name")
    if not all(size is None or (type(size) is int and 0 <= size < 1 << 32) for size in sizes):
        raise BadShardError("the description has columns whose size is not a number")
    return tuple(map(Column, names, encodings, sizes))


def starts_as_shard(start: bytes) -> bool:
    """Return whether a file with these first bytes may be a shard; they may end before its description."""
    try:
        count, first = _first_numbers(start[: 2 * _COUNT])
    except BadShardError:
        return False
    at = _description(count)
    if not count or not at < first <= at + _MOST_DESCRIPTION:
        return False
    return start[at : at + len(_START)] == _START[: max(len(start) - at, 0)]
