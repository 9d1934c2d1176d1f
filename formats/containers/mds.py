"""The container MDS: shards of Mosaic Streaming, read in place; compressed ones are decompressed whole.

A shard is the number of samples N (uint32), N + 1 offsets (uint32), a description in JSON, and the samples
(``encode_joint_shard`` in streaming/base/format/mds/writer.py, mosaicml-streaming 0.13). All numbers are
little-endian. A sample is the sizes (uint32) of the columns without a fixed size, and the values of all
columns in the order of the description. ``index.json`` beside the shards repeats the header of each, with
hashes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.arguments import some_of
from stoker.errors import SourceError

from ..codecs.codec import ImageHeader, raw_header
from ..files import open_regular, read_at
from .compression import blame_compression, decompressed_start
from .container import BadShardError, Container, ReadStart, Record, RecordPart, read_whole
from .image_record import ExternalSample, FeatureNames, JsonText, Label, Value, to_label
from .protobuf import Span

MDS_NAMES = FeatureNames(encoded="", label="label", text=None, key=None)
"""Names of columns. The image is by default in the only image column."""

INDEX_FILE = "index.json"
_MOST_INDEX = 1 << 28
_CHUNK = 1 << 20
_START = 1 << 16  # bytes in which a shard is recognised
_MOST_START = 1 << 23  # bytes before the description of a shard that is recognised
_MOST_DESCRIPTION = 1 << 20  # bytes
_MOST_COLUMNS = 10_000

_IMAGES = ("jpeg", "png", "jpeg_array", "jpegarray", "pil")
"""Encodings that hold one image (streaming/base/format/mds/encodings.py)."""
_TEXTS = ("str", "json", "str_decimal")
_SPELLED: dict[str, Callable[[str], int | float]] = {"str_int": int, "str_float": float}
_NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_NUMBERS |= {"float16", "float32", "float64", "int"}
_VALUES = {*_TEXTS, *_SPELLED, *_NUMBERS}
"""Encodings that hold one number or one text."""
_PIL = struct.Struct("<III")  # width, height, bytes of the mode
_PIL_CHANNELS = {b"RGB": 3, b"L": 1}


class Column(NamedTuple):
    """A column: its name, its encoding, and the bytes of each value, or None if values differ in size."""

    name: str
    encoding: str
    size: int | None

    def __str__(self) -> str:
        return f"{self.name} ({self.encoding}, {self.size})"


def scan(path: Path) -> Iterator[Record]:
    """Yield the samples of an MDS shard, which is compared with ``index.json``; every size is checked."""
    number = 0
    with open_regular(path) as (descriptor, size):
        try:
            columns, offsets = _read_shard_header(descriptor, size)
            _check_index_file(path, size, columns, samples=len(offsets) - 1)
            for number, (start, end) in enumerate(pairwise(offsets.tolist())):
                view = memoryview(read_whole(descriptor, start, end - start))
                yield Record(number, b"", start, len(view), view, _parts(view, columns))
        except BadShardError as error:
            if blame_compression(error, read_at(descriptor, 0, _START), path.name):
                error.hint = f"{error.hint}; or convert it with stoker.convert."
            raise error.about(number, path) from error


def _read_shard_header(descriptor: int, size: int) -> tuple[tuple[Column, ...], npt.NDArray[np.int64]]:
    """Return the columns of an open shard, and the first byte of each sample with the end of the last."""
    # -> (N + 1,) int64
    header = read_at(descriptor, 0, 8)
    if len(header) < 8:
        raise BadShardError(f"the file has {len(header)} bytes, fewer than a header")
    count, first, start = _first_numbers(header)
    if not start < first <= min(size, start + _MOST_DESCRIPTION):
        raise BadShardError(f"the header claims {count} samples, the first at byte {first}, in {size} bytes")
    data = read_whole(descriptor, 4, first - 4)
    offsets = np.frombuffer(data[: start - 4], "<u4").astype(np.int64)
    if (np.diff(offsets) < 0).any():
        record = int(np.flatnonzero(np.diff(offsets) < 0)[0])
        raise BadShardError(f"the offsets descend: sample {record} ends before it starts")
    if offsets[-1] != size:
        raise BadShardError(f"the samples end at byte {offsets[-1]}, and the file has {size} bytes")
    try:
        described = json.loads(data[start - 4 :])
    except (ValueError, RecursionError) as error:
        raise BadShardError(f"the description of the columns is not JSON: {error}") from error
    return _parse_columns(described), offsets


def _first_numbers(data: bytes) -> tuple[int, int, int]:
    """Return the number of samples, the offset of the first, and the offset of the description."""
    count, first = struct.unpack_from("<II", data)
    return count, first, 4 * (count + 2)


def _parse_columns(described: Any) -> tuple[Column, ...]:
    """Return the columns that a JSON object describes, of a shard or in ``index.json``."""
    description = described if isinstance(described, dict) else {}
    lists = [description.get(f"column_{part}") for part in ("names", "encodings", "sizes")]
    if description.get("format") != "mds" or not all(isinstance(one, list) for one in lists):
        raise BadShardError("the description does not state MDS columns")
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


def _parts(view: memoryview, columns: Sequence[Column]) -> tuple[RecordPart, ...]:
    varying = sum(column.size is None for column in columns)
    at = 4 * varying
    if len(view) < at:
        raise BadShardError(
            f"the sample has {len(view)} bytes, and {varying} of its columns have a size there"
        )
    sizes = iter(np.frombuffer(view[:at], "<u4").tolist())
    parts = []
    for column in columns:
        size = next(sizes) if column.size is None else column.size
        parts.append(RecordPart(column.name, "", Span(at, size), column.encoding))
        at += size
    if at != len(view):
        raise BadShardError(f"the sample has {len(view)} bytes, and its columns take {at}")
    return tuple(parts)


def _check_index_file(path: Path, size: int, columns: tuple[Column, ...], samples: int) -> None:
    """Compare a shard of ``size`` bytes with ``index.json`` beside it, if there is one."""
    file = path.with_name(INDEX_FILE)
    try:
        state = file.stat()
        shards = _described_shards(file, state.st_size, state.st_mtime_ns)
    except OSError:
        return
    except (ValueError, RecursionError) as error:
        raise BadShardError(f"{INDEX_FILE} beside it is not JSON: {error}") from error
    if (described := shards.get(path.name)) is None:
        raise BadShardError(f"{INDEX_FILE} beside it does not name it")
    raw = described["raw_data"]
    actual = {"samples": (described.get("samples"), samples), "bytes": (raw.get("bytes"), size)}
    for what, (stated, found) in actual.items():
        if stated != found:
            raise BadShardError(f"{INDEX_FILE} says that it has {stated} {what}, and it has {found}")
    if (listed := _parse_columns(described)) != columns:
        words = [", ".join(map(str, some)) for some in (listed, columns)]
        raise BadShardError(f"{INDEX_FILE} says that its columns are {words[0]}, and they are {words[1]}")
    hashes = raw.get("hashes") or {}
    for name in hashes if isinstance(hashes, dict) else ():
        known = name in hashlib.algorithms_guaranteed and not name.startswith("shake")
        if known and _hash(path, name) != hashes[name]:
            raise BadShardError(f"the {name} of the file differs from {INDEX_FILE}: the file is damaged")


@lru_cache(maxsize=2)
def _described_shards(file: Path, size: int, modified: int) -> dict[str, dict[str, Any]]:
    """Return what ``index.json`` of this state says of each shard, by the name of its file."""
    with open_regular(file) as (descriptor, _):
        document = json.loads(read_at(descriptor, 0, min(size, _MOST_INDEX)))
    shards = document.get("shards") if isinstance(document, dict) else None
    by_name = {}
    for shard in shards if isinstance(shards, list) else ():
        raw = shard.get("raw_data") if isinstance(shard, dict) else None
        if isinstance(raw, dict) and isinstance(raw.get("basename"), str):
            by_name[raw["basename"]] = shard
    return by_name


def _hash(path: Path, name: str) -> str:
    digest = hashlib.new(name, usedforsecurity=False)
    with open_regular(path) as (descriptor, size):
        for offset in range(0, size, _CHUNK):
            digest.update(read_at(descriptor, offset, _CHUNK))
    return digest.hexdigest()


def _recognizes(read_start: ReadStart) -> bool:
    start = read_start("", _START)
    if start is None:
        return False
    start = decompressed_start(start, _START) or start
    if not _starts_as_shard(start):
        return False
    more = 4 * int.from_bytes(start[:4], "little") + 16
    return len(start) >= more or (more <= _MOST_START and _starts_as_shard(read_start("", more) or b""))


def _starts_as_shard(start: bytes) -> bool:
    """Return whether a file with these first bytes may be a shard; they may end before its description."""
    if len(start) < 8:
        return False
    count, first, at = _first_numbers(start)
    if not count or not at < first <= at + _MOST_DESCRIPTION:
        return False
    return start[at : at + 2] == b'{"'[: max(len(start) - at, 0)]


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    """Find the image of a sample, with its label and its other columns of numbers and texts."""
    # Without ``names.encoded``, the image is in the only image column. Without ``names.columns``, all
    # columns that hold a number or a text become columns of the index.
    parts = {part.name: part for part in record.parts}
    image = parts.get(names.encoded) if names.encoded else _only_image(record.parts)
    if image is None:
        raise SourceError(
            f"the sample has no column {names.encoded!r}",
            hint=f"Name the column of the image (encoded), one of: {some_of(parts)}.",
        )
    sides = [parts[side] for side in (names.height, names.width) if side in parts]
    size = tuple(value for side in sides if isinstance(value := _decode(side, record.view), int))
    payload, header = image.span, None
    if image.encoding == "pil":
        payload, header = _pil_image(image, record.view)
    elif image.encoding == "bytes" or image.encoding in _IMAGES:
        header = names.raw_header(payload.length, size if len(size) == 2 else ())
    else:
        raise SourceError(
            f"the column {image.name!r} has the encoding {image.encoding}, which cannot be read in place",
            hint=f"Images are read from {', '.join((*_IMAGES, 'bytes'))}. Or convert a StreamingDataset with "
            "stoker.convert.",
        )
    label, text, key = (parts.get(name or "") for name in (names.label, names.text, names.key))
    used = {part.name for part in (image, label, text, key) if part is not None}
    rest = {name: name for name, part in parts.items() if part.encoding in _VALUES and name not in used}
    columns = {name: parts.get(part) for name, part in (names.columns or rest).items()}
    return ExternalSample(
        payload=payload,
        key="" if key is None else str(_decode(key, record.view)),
        label=label and _label(label, record.view, names),
        text="" if text is None else str(_decode(text, record.view)),
        header=header,
        columns={name: part and _decode(part, record.view) for name, part in columns.items()},
        unread=[
            f"column {name!r} of encoding {part.encoding}"
            for name, part in parts.items()
            if part.encoding not in _VALUES and name not in used
        ],
    )


def _only_image(parts: Sequence[RecordPart]) -> RecordPart:
    """Return the only image column, or else the only one of bytes."""
    images = [part for part in parts if part.encoding in _IMAGES]
    candidates = images or [part for part in parts if part.encoding == "bytes"]
    if len(candidates) == 1:
        return candidates[0]
    raise SourceError(
        f"the sample has {len(candidates)} columns that may be its image",
        hint=f"Name the column of the image (encoded), one of: {some_of(part.name for part in parts)}.",
    )


def _pil_image(part: RecordPart, view: memoryview) -> tuple[Span, ImageHeader]:
    """Return the pixels of an image that Pillow's ``tobytes`` wrote."""
    offset, length = part.span
    if length >= _PIL.size:
        width, height, mode_bytes = _PIL.unpack_from(view, offset)
        start = offset + _PIL.size + mode_bytes
        mode = bytes(view[offset + _PIL.size : start]) if mode_bytes < 8 else b""
        if mode in _PIL_CHANNELS:
            pixels = Span(start, offset + length - start)
            return pixels, raw_header(pixels.length, (height, width, _PIL_CHANNELS[mode]))
    raise SourceError(
        f"the column {part.name!r} holds no pixels of Pillow's mode RGB or L",
        hint="Convert a StreamingDataset with stoker.convert.",
    )


def _label(part: RecordPart, view: memoryview, names: FeatureNames) -> Label:
    value = _decode(part, view)
    if isinstance(value, str):
        return value
    return to_label([value], names.label_type, f"the column {part.name!r}")


def _decode(part: RecordPart, view: memoryview) -> Value:
    data = bytes(part.span.of(view))
    if part.encoding in _TEXTS:
        text = data.decode(errors="backslashreplace")
        return JsonText(text) if part.encoding == "json" else text
    with contextlib.suppress(ValueError):
        if part.encoding in _SPELLED:
            return _SPELLED[part.encoding](data.decode())
        if part.encoding in _NUMBERS:
            dtype = np.dtype("int64" if part.encoding == "int" else part.encoding)
            if len(data) == dtype.itemsize:
                number: int | float = np.frombuffer(data, dtype.newbyteorder("<"))[0].item()
                return number
    raise SourceError(
        f"the column {part.name!r} of encoding {part.encoding} holds no number or text",
        hint="Name another column for the label, the key or the values.",
    )


MDS = Container(
    name="mds",
    recognizes=_recognizes,
    scan=scan,
    parse_image=parse_image,
    feature_names=MDS_NAMES,
    beside=INDEX_FILE,
    compressed_suffixes=(".zstd", ".gz", ".bz2", ".br", ".snappy"),  # of streaming/base/compression.py
)
