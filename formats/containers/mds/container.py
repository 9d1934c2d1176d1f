"""The container MDS: shards of Mosaic Streaming without compression, read in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from stoker.errors import CorruptRecordError, SourceError

from ...files.reading import open_regular, read_at
from ..base import Container, ReadStart, Record, RecordPart
from ..messages.image_record import ExternalSample, FeatureNames, Label
from ..messages.wire import Span
from ..parts.labels import to_label
from .compression import compression_of, decompress_command, decompressed_start
from .header import BadShardError, Column, read_header, starts_as_shard
from .index_file import INDEX_FILE, check_index_file
from .values import IMAGES, decode_value, find_image, is_value

_START = 1 << 16
_MOST_START = 1 << 23  # bytes before the description of a shard that is recognised
MDS_NAMES = FeatureNames(encoded="", label="label", text=None, key=None)
"""Names of columns. The image is by default in the only column of images."""


def scan(path: Path) -> Iterator[Record]:
    """Yield the samples of an MDS shard, which is compared with ``index.json``; every size is checked."""
    number = 0
    with open_regular(path) as (descriptor, size):
        try:
            header = read_header(descriptor, size)
            check_index_file(path, size, header)
            for number, (start, end) in enumerate(pairwise(header.offsets.tolist())):
                view = memoryview(read_at(descriptor, start, end - start))
                if len(view) < end - start:
                    raise BadShardError("the file became shorter while it was read")
                yield Record(number, b"", start, len(view), view, _parts(view, header.columns))
        except BadShardError as error:
            message, hint = str(error), None
            if compression := compression_of(path.name, read_at(descriptor, 0, _START)):
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
    start = read_start("", _START)
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
