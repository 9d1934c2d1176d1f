"""Compressed MDS shards, which cannot be read in place: how to recognise and decompress them."""

from __future__ import annotations

import bz2
import contextlib
import hashlib
import json
import shlex
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import CorruptRecordError, SourceError

from ..codecs.header import ImageHeader, raw_header, read_header
from ..files import open_regular, read_at
from .base import Container, ReadStart, Record, RecordPart
from .image_record import ExternalSample, FeatureNames, Label, Value, to_label
from .protobuf import Span

_MOST = 1 << 16  # bytes that are decompressed
_SNAPPY = "import sys, snappy; sys.stdout.buffer.write(snappy.decompress(sys.stdin.buffer.read()))"
_COMMANDS = {
    "zstd": "zstd -d",
    "gz": "gzip -d",
    "bz2": "bzip2 -d",
    "br": "brotli -d",
    "snappy": f"python -c {shlex.quote(_SNAPPY)}",
}
"""Commands by the suffix of the file (streaming/base/compression.py)."""


def _zstd(start: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(start), "zstd") as stream:
        return bytes(stream.read(_MOST))


_MAGIC: dict[bytes, tuple[str, Callable[[bytes], bytes]]] = {
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"\x1f\x8b": ("gz", lambda start: zlib.decompressobj(31).decompress(start, _MOST)),
    b"BZh": ("bz2", lambda start: bz2.BZ2Decompressor().decompress(start, _MOST)),
}


def compression_of(name: str, start: bytes) -> str | None:
    """Return the compression of a file by its first bytes or by its suffix; None for an uncompressed file."""
    for magic, (kind, _) in _MAGIC.items():
        if start.startswith(magic):
            return kind
    suffix = name.rpartition(".")[2]
    return suffix if suffix in _COMMANDS else None


def decompressed_start(start: bytes) -> bytes:
    """Return the first bytes of a compressed file; empty if it is not compressed, or is damaged."""
    for magic, (_, decompress) in _MAGIC.items():
        if start.startswith(magic):
            with contextlib.suppress(zlib.error, OSError, ValueError, EOFError):
                return decompress(start)
    return b""


def decompress_command(name: str, compression: str) -> str:
    """Return the command that decompresses a shard."""
    plain = name.removesuffix(f".{compression}")
    plain = plain if plain != name else f"{name}.mds"
    return f"{_COMMANDS[compression]} < {shlex.quote(name)} > {shlex.quote(plain)}"


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


def read_shard_header(descriptor: int, size: int) -> MDSHeader:
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


INDEX_FILE = "index.json"
_MOST_BYTES = 1 << 28
_CHUNK = 1 << 20


def check_index_file(path: Path, size: int, header: MDSHeader) -> None:
    """Compare a shard of ``size`` bytes, and its header, with ``index.json`` beside it, if there is one."""
    described = _described(path)
    if described is None:
        return
    raw = described["raw_data"]
    for what, stated, actual in (
        ("samples", described.get("samples"), header.samples),
        ("bytes", raw.get("bytes"), size),
    ):
        if stated != actual:
            raise BadShardError(f"{INDEX_FILE} says that it has {stated} {what}, and it has {actual}")
    if (columns := parse_columns(described)) != header.columns:
        raise BadShardError(
            f"{INDEX_FILE} says that its columns are {_text(columns)}, and they are {_text(header.columns)}"
        )
    hashes = raw.get("hashes") or {}
    for name in hashes if isinstance(hashes, dict) else ():
        if (
            name in hashlib.algorithms_guaranteed
            and not name.startswith("shake")
            and _hash(path, name) != hashes[name]
        ):
            raise BadShardError(f"the {name} of the file is not that of {INDEX_FILE}: the file is damaged")


def _text(columns: tuple[Any, ...]) -> str:
    return ", ".join(f"{column.name} ({column.encoding}, {column.size})" for column in columns)


def _described(path: Path) -> dict[str, Any] | None:
    """Return what ``index.json`` says of the shard; None without such a file."""
    file = path.with_name(INDEX_FILE)
    try:
        state = file.stat()
        shards = _shards(file, state.st_size, state.st_mtime_ns)
    except OSError:
        return None
    except (ValueError, RecursionError) as error:
        raise BadShardError(f"{INDEX_FILE} beside it is not JSON: {error}") from error
    if path.name not in shards:
        raise BadShardError(f"{INDEX_FILE} beside it does not name it")
    return shards[path.name]


@lru_cache(maxsize=2)
def _shards(file: Path, size: int, modified: int) -> dict[str, dict[str, Any]]:
    """Return what ``index.json`` of this state says of each shard, by the name of its file."""
    with open_regular(file) as (descriptor, _):
        document = json.loads(read_at(descriptor, 0, min(size, _MOST_BYTES)))
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


IMAGES = ("jpeg", "png", "jpeg_array", "jpegarray", "pil")
"""Encodings that hold one image."""

_TEXTS = ("str", "json", "str_decimal")
_NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_NUMBERS |= {"float16", "float32", "float64"}
_SPELLED: dict[str, Callable[[str], int | float]] = {"str_int": int, "str_float": float}
_VALUES = {"int", *_TEXTS, *_SPELLED, *_NUMBERS}
_PIL = struct.Struct("<III")  # width, height, bytes of the mode
_CHANNELS = {b"RGB": 3, b"L": 1}


def is_value(part: RecordPart) -> bool:
    """Return whether a column holds one number or one text."""
    return part.encoding in _VALUES


def decode_value(part: RecordPart, view: memoryview) -> Value:
    """Return the number or the text of a column."""
    data = bytes(part.span.of(view))
    if part.encoding in _TEXTS:
        return data.decode(errors="backslashreplace")
    try:
        if part.encoding in _SPELLED:
            return _SPELLED[part.encoding](data.decode())
        dtype = np.dtype("int64" if part.encoding == "int" else part.encoding) if is_value(part) else None
        if dtype is not None and len(data) == dtype.itemsize:
            number: int | float = np.frombuffer(data, dtype.newbyteorder("<"))[0].item()
            return number
    except ValueError:
        pass
    raise SourceError(
        f"the column {part.name!r} of encoding {part.encoding} holds no number or text",
        hint="name another column: --label for the label, --key for the name, --column for others",
    )


def find_image(
    part: RecordPart, view: memoryview, names: FeatureNames, sides: tuple[int, ...]
) -> tuple[Span, ImageHeader]:
    """Return the byte range of the image in a column, and its header.

    ``sides`` are height and width of raw pixels, from other columns; empty if no columns state them.
    """
    if part.encoding == "pil":
        return _pil_image(part, view)
    if part.encoding != "bytes" and part.encoding not in IMAGES:
        raise SourceError(
            f"the column {part.name!r} has the encoding {part.encoding}, which cannot be read in place",
            hint=f"images are read from {', '.join((*IMAGES, 'bytes'))}; or convert a StreamingDataset with "
            "stoker.convert",
        )
    if not names.raw:
        return part.span, read_header(part.span.of(view))
    if names.shape is None and not sides:
        raise SourceError("the record does not state the size of raw pixels", hint="name it: --shape 32x32x3")
    return part.span, raw_header(part.span.length, names.shape or sides, any_channels=names.shape is None)


def _pil_image(part: RecordPart, view: memoryview) -> tuple[Span, ImageHeader]:
    """Return the pixels of an image that Pillow's ``tobytes`` wrote."""
    offset, length = part.span
    if length >= _PIL.size:
        width, height, mode_bytes = _PIL.unpack_from(view, offset)
        start = offset + _PIL.size + mode_bytes
        mode = bytes(view[offset + _PIL.size : start]) if mode_bytes < 8 else b""
        if mode in _CHANNELS:
            pixels = Span(start, offset + length - start)
            return pixels, raw_header(pixels.length, (height, width, _CHANNELS[mode]))
    raise SourceError(
        f"the column {part.name!r} holds no pixels of Pillow's mode RGB or L",
        hint="convert a StreamingDataset with stoker.convert",
    )


_START_container = 1 << 16
_MOST_START = 1 << 23  # bytes before the description of a shard that is recognised
MDS_NAMES = FeatureNames(encoded="", label="label", text=None, key=None)
"""Names of columns. The image is by default in the only column of images."""


def scan(path: Path) -> Iterator[Record]:
    """Yield the samples of an MDS shard, which is compared with ``index.json``; every size is checked."""
    number = 0
    with open_regular(path) as (descriptor, size):
        try:
            header = read_shard_header(descriptor, size)
            check_index_file(path, size, header)
            for number, (start, end) in enumerate(pairwise(header.offsets.tolist())):
                view = memoryview(read_at(descriptor, start, end - start))
                if len(view) < end - start:
                    raise BadShardError("the file became shorter while it was read")
                yield Record(number, b"", start, len(view), view, _parts(view, header.columns))
        except BadShardError as error:
            message, hint = str(error), None
            if compression := compression_of(path.name, read_at(descriptor, 0, _START_container)):
                message = f"the shard is compressed with {compression}, which allows no random access"
                hint = (
                    "convert it: stoker convert; or decompress it first: "
                    f"{decompress_command(path.name, compression)}"
                )
            raise CorruptRecordError(message, path=path, shard=path.name, record=number, hint=hint) from error


def _parts(view: memoryview, columns: Sequence[Column]) -> tuple[RecordPart, ...]:
    """Return the byte range of each column's value in a sample."""
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


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    """Return the image of a sample, with its label and its other columns of numbers and texts.

    Without ``names.encoded``, the image is in the only column of images. Without ``names.columns``, all
    columns that hold a number or a text become columns of the index.
    """
    parts = {part.name: part for part in record.parts}
    image = parts.get(names.encoded) if names.encoded else _only_image(record.parts)
    if image is None:
        raise SourceError(
            f"the sample has no column {names.encoded!r}",
            hint=f"name the column of the image (--image), one of: {', '.join(parts)}",
        )
    sides = [parts[side] for side in (names.height, names.width) if side in parts]
    values = (decode_value(side, record.view) for side in sides)
    size = tuple(value for value in values if isinstance(value, int))
    payload, header = find_image(image, record.view, names, size if len(size) == 2 else ())
    label, text, key = (parts.get(name or "") for name in (names.label, names.text, names.key))
    used = {part.name for part in (image, label, text, key) if part is not None}
    rest = {name: name for name, part in parts.items() if is_value(part) and name not in used}
    columns = {name: parts.get(part) for name, part in (names.columns or rest).items()}
    return ExternalSample(
        payload=payload,
        header=header,
        key="" if key is None else str(decode_value(key, record.view)),
        label=None if label is None else _label(label, record.view, names),
        text="" if text is None else str(decode_value(text, record.view)),
        columns={
            name: None if part is None else decode_value(part, record.view) for name, part in columns.items()
        },
    )


def _only_image(parts: Sequence[RecordPart]) -> RecordPart:
    """Return the only column of images, or else the only one of bytes."""
    images = [part for part in parts if part.encoding in IMAGES]
    candidates = images or [part for part in parts if part.encoding == "bytes"]
    if len(candidates) == 1:
        return candidates[0]
    raise SourceError(
        f"the sample has {len(candidates)} columns that may be its image",
        hint="name the column of the image (--image), one of: " + ", ".join(part.name for part in parts),
    )


def _label(part: RecordPart, view: memoryview, names: FeatureNames) -> Label:
    """Return the label in a column: a number, or the name of a class."""
    value = decode_value(part, view)
    return (
        value if isinstance(value, str) else to_label([value], names.label_type, f"the column {part.name!r}")
    )


def _recognizes(read_start: ReadStart) -> bool:
    """Return whether the shard is a file that starts with the header of a shard, compressed or not."""
    start = read_start("", _START_container)
    if start is None:
        return False
    start = decompressed_start(start) or start
    if not starts_as_shard(start):
        return False
    more = 4 * int.from_bytes(start[:4], "little") + 16
    return len(start) >= more or (more <= _MOST_START and starts_as_shard(read_start("", more) or b""))


MDS = Container(
    name="mds",
    recognizes=_recognizes,
    scan=scan,
    parse_image=parse_image,
    feature_names=MDS_NAMES,
    beside=INDEX_FILE,
)
