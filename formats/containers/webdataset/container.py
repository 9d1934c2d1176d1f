"""The container webdataset: tar archives, read in place."""

from __future__ import annotations

import shlex
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from stoker._native import crc32c
from stoker.errors import CorruptRecordError

from ...codecs.header import ImageHeader, read_header
from ...codecs.partial_header import read_partial_header
from ...files.reading import open_regular, read_at
from ..base import Container, Read, ReadStart, Record, RecordPart
from ..messages.image_record import ExternalSample, FeatureNames, LeftOutError
from ..messages.wire import Span
from .headers import BLOCK, BadArchiveError, parse_header
from .members import compression
from .parts import SampleParts
from .samples import find_samples

TAR_NAMES = FeatureNames(
    encoded="jpg;jpeg;png;webp", label="cls", text=None, key=None, columns={"caption": "txt"}
)
"""Default suffixes of the members that are read."""

_START = 1 << 16  # bytes in which a compressed archive shows its first header
_LONGEST = 1 << 31


def scan(path: Path) -> Iterator[Record]:
    """Yield the samples of a tar archive; every header is checked."""
    number = 0
    with open_regular(path) as (descriptor, size):
        read = partial(read_at, descriptor)
        try:
            for sample in find_samples(read, size):
                if sample.length > _LONGEST:
                    raise BadArchiveError(
                        f"the members of {sample.key} have {sample.length} bytes, more than 2 GiB",
                        "leave other members than images and their annotations out of the archive",
                    )
                view = memoryview(read(sample.offset, sample.length))
                if len(view) < sample.length:
                    raise BadArchiveError("the file became shorter while it was read")
                yield Record(number, sample.key.encode(), sample.offset, sample.length, view, sample.parts)
                number += 1
        except BadArchiveError as error:
            raise archive_error(error, read(0, _START), str(path), number) from error


def scan_at_url(read: Read, size: int, url: str) -> Iterator[Record]:
    """Yield the samples of a tar archive at a URL; only headers are read and checked."""
    number = 0
    try:
        for sample in find_samples(read, size):
            key, view = sample.key.encode(), memoryview(b"")
            yield Record(number, key, sample.offset, sample.length, view, sample.parts, read=read)
            number += 1
    except BadArchiveError as error:
        raise archive_error(error, read(0, _START), url, number) from error


def archive_error(error: BadArchiveError, start: bytes, path: str, record: int) -> CorruptRecordError:
    """Return an error about an archive, by its first bytes, its path or URL, and the damaged sample."""
    name = path.rpartition("/")[2]
    message, hint = str(error), error.hint
    if command := compression(start):
        plain = f"{name[:-4]}.tar" if name.endswith(".tgz") else name.rpartition(".")[0] or f"{name}.tar"
        message = "the archive is compressed, which allows no random access"
        hint = f"decompress it first: {command} < {shlex.quote(name)} > {shlex.quote(plain)}"
    return CorruptRecordError(message, path=path, shard=name, record=record, key=error.key, hint=hint)


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    """Return the image of a sample, with its class and the columns that ``names`` asks for."""
    parts = SampleParts(record.parts, partial(_read_part, record))
    image = image_part(parts, names)
    header, whole = _read_header(record, image.span)
    label = parts.label(names.label) if names.label else None
    text = parts.value(names.text) if names.text else None
    key = parts.value(names.key) if names.key else None
    return ExternalSample(
        payload=image.span,
        header=header,
        key=record.key.decode() if key is None else str(key),
        label=label,
        text="" if text is None else str(text).strip(),
        columns={name: parts.value(part) for name, part in names.columns.items()},
        crc=None if whole is None else crc32c(whole),
    )


def _read_header(record: Record, image: Span) -> tuple[ImageHeader, bytes | None]:
    """Return the header of an image; and the image, if all of it was fetched for that."""
    if record.read is None:
        return read_header(image.of(record.view)), None
    read, first = record.read, record.offset + image.offset
    return read_partial_header(lambda offset, length: read(first + offset, length), image.length)


def image_part(parts: SampleParts, names: FeatureNames) -> RecordPart:
    """Return the member of a sample that is its image."""
    image = parts.first(names.encoded)
    if image is None:
        raise LeftOutError(f"sample without an image ({names.encoded})")
    if image.kind:
        raise LeftOutError(f"image that is a {image.kind} in the archive")
    return image


def _read_part(record: Record, part: RecordPart) -> bytes:
    if record.read is not None:
        return record.read(record.offset + part.span.offset, part.span.length)
    return bytes(part.span.of(record.view))


def _recognizes(read_start: ReadStart) -> bool:
    """Return whether the shard is a file that starts with the header of a tar, compressed or not."""
    start = read_start("", _START)
    if start is None:
        return False
    if start[:2] == b"\x1f\x8b":
        try:
            start = zlib.decompressobj(31).decompress(start, BLOCK)
        except zlib.error:
            return False
    elif compression(start):
        return True
    return _is_header(start[:BLOCK])


def _is_header(block: bytes) -> bool:
    if len(block) < BLOCK:
        return False
    try:
        parse_header(block)
    except BadArchiveError:
        return not any(block)  # an empty archive
    return True


WEBDATASET = Container(
    name="webdataset",
    recognizes=_recognizes,
    scan=scan,
    parse_image=parse_image,
    feature_names=TAR_NAMES,
    scan_at_url=scan_at_url,
)
