"""The container WebDataset: tar archives in which neighbouring members with one name form a sample.

Headers follow POSIX.1-2017 (pax, "ustar Interchange Format" and "pax Header Block"), with the
extensions of GNU tar (its manual, "Basic Tar Format"). Nothing is allocated for a number in a header.

The key of a sample is the path of a member up to the first dot of the file name, and the rest is the suffix,
in lower case (``base_plus_ext`` and ``group_by_keys`` in WebDataset's tariterators.py, release 1.0). As
there, members whose path has no such dot, and members in folders like ``__meta__``, belong to no sample.
WebDataset silently leaves out links and sparse files; here they are parts that cannot be read, so that their
samples are counted.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from stoker.errors import SourceError

from ..files import open_regular, read_at
from .compression import GZIP, blame_compression, decompressed_start, find_compression
from .container import BadShardError, Container, Read, ReadStart, Record, RecordPart, read_whole
from .image_record import ExternalSample, FeatureNames, JsonText, LeftOutError, Value
from .protobuf import Span

TAR_NAMES = FeatureNames(
    encoded="jpg;jpeg;png;webp", label="cls", text=None, key=None, columns={"caption": "txt"}
)
"""Default suffixes of the members that are read."""

_SHOWN = 5  # suffixes in a message
_BLOCK = 512  # bytes of a header; members start at multiples of it
_ZERO = bytes(_BLOCK)
_START = 1 << 16  # bytes in which a compressed archive shows its first header
_LONGEST_SAMPLE = 1 << 31
_LONGEST_EXTENSION = 1 << 20  # bytes of a long name or of a PAX header
_LONGEST_VALUE = 1 << 26  # bytes of a member with a value
_TAIL = 1 << 20  # bytes after the end that are looked at

_FIELDS = struct.Struct("100s24x12s12x8s1s100x8s80x155s12x")  # name, size, checksum, type, magic, prefix
_USTAR = b"ustar\0"  # GNU tar's magic is another one, and its headers have no prefix
_OCTAL = re.compile(rb" *([0-7]+)[ \0]*|[ \0]*")
_PAX_LENGTH = re.compile(rb"(\d{1,19}) ")
_PLAIN, _REGULAR, _SPARSE = b"0", b"0\0007", b"S"
_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_LINK = b"xX", b"g", b"L", b"K"
_EXTENSIONS = _PAX + _PAX_GLOBAL + _LONG_NAME + _LONG_LINK
_KINDS = {b"1": "link", b"2": "link", b"3": "device", b"4": "device", b"5": "folder", b"6": "pipe"}
_META = re.compile(r"__[^/]*__($|/)")
# Also as writers of floats and of PyTorch's tensors leave it; 007 is a name.
_WHOLE = re.compile(r"\s*(tensor\()?(-?(?:0|[1-9]\d{0,18}))(?:\.0*)?(?(1)\))\s*")
_FRACTION = re.compile(r"\s*-?\d+\.\d+([eE][-+]?\d+)?\s*")
_JSON = "json;jsn"
_NAME_ANOTHER = "Name another member for this value, or leave its option out."
_CUT_SHORT = "the archive is cut short: it ends within a header"


class _Header(NamedTuple):
    """One header block."""

    name: bytes  # Path of the member, as far as the block holds it
    size: int  # Bytes that follow, as the block states them
    kind: bytes  # Type flag, one byte
    block: bytes  # The whole block


class Member(NamedTuple):
    """One member of an archive."""

    start: int  # Offset of its first header
    name: str  # Its path, which is never opened
    kind: str  # Its type, such as "link"; empty for a regular file
    offset: int  # Offset of its first byte
    length: int  # Its bytes


def scan(path: Path) -> Iterator[Record]:
    """Yield the samples of a tar archive; every header is checked."""
    with open_regular(path) as (descriptor, size):
        for record in scan_headers(partial(read_at, descriptor), size, str(path)):
            try:
                if record.length > _LONGEST_SAMPLE:
                    raise BadShardError(
                        f"the members of {record.key.decode()} have {record.length} bytes, more than 2 GiB",
                        "Leave other members than images and their annotations out of the archive.",
                    )
                view = memoryview(read_whole(descriptor, record.offset, record.length))
            except BadShardError as error:
                raise error.about(record.number, path) from error
            yield record._replace(view=view, read=None)


def scan_headers(read: Read, size: int, path: str) -> Iterator[Record]:
    """Yield the samples of a tar archive, from which only headers are read and checked."""
    number, key = 0, ""
    seen: set[str] = set()
    members: list[tuple[str, Member]] = []
    try:
        for member in find_members(read, size):
            if (split := _split(member.name)) is None:
                continue
            if split[0] != key:
                if split[0] in seen:
                    raise BadShardError(
                        f"the members of {split[0]} are not next to each other",
                        "Sort the members by name, as by: tar --sort=name -cf NEW.tar FOLDER",
                    )
                if members:
                    yield _sample(read, number, key, members)
                    number += 1
                key, members = split[0], []
                seen.add(key)
            members.append((split[1], member))
        if members:
            yield _sample(read, number, key, members)
    except BadShardError as error:
        error.key = key or None
        blame_compression(error, read(0, _START), path.rpartition("/")[2])
        error.hint = error.hint or "Restore the archive, or write it again."
        raise error.about(number, path) from error


def _recognizes(read_start: ReadStart) -> bool:
    start = read_start("", _START)
    if start is None:
        return False
    if compression := find_compression(start):
        if compression is not GZIP:
            return True
        start = decompressed_start(start, _BLOCK)
    block = start[:_BLOCK]
    try:
        parse_header(block)
    except BadShardError:
        return block == _ZERO  # an empty archive
    return True


def _split(name: str) -> tuple[str, str] | None:
    """Return key and suffix of a member; None for one that belongs to no sample."""
    folder, slash, file = name.rpartition("/")
    stem, dot, suffix = file.partition(".")
    if not dot or not stem or (name.startswith("__") and _META.match(name)):
        return None
    return f"{folder}{slash}{stem}", suffix.lower()


def _sample(read: Read, number: int, key: str, members: list[tuple[str, Member]]) -> Record:
    """Return the record of neighbouring members with one key, from the first header to the last byte."""
    start, last = members[0][1].start, members[-1][1]
    parts = tuple(
        RecordPart(suffix, member.kind, Span(member.offset - start, member.length))
        for suffix, member in members
    )
    if len(dict(members)) < len(parts):
        raise BadShardError(f"two members of {key} have one name")
    length = last.offset + last.length - start
    return Record(number, key.encode(), start, length, memoryview(b""), parts, read=read)


def find_members(read: Read, size: int) -> Iterator[Member]:
    """Yield the members of an archive of ``size`` bytes in their order, without folders."""
    at = start = 0
    name: bytes | None = None
    pax: Mapping[bytes, bytes] = {}
    while (block := read(at, _BLOCK)) != _ZERO:
        header = parse_header(block)
        data = at + _BLOCK
        if header.kind in _EXTENSIONS:
            content = _extension(read, data, header)
            if header.kind in _PAX:
                pax = {**pax, **parse_pax(content)}
            elif header.kind == _LONG_NAME:
                name = content.partition(b"\0")[0]
            at = data + _padded(header.size)
            continue
        if name is None and not pax and header.kind in _PLAIN and not header.name.endswith(b"/"):
            member = Member(start, _text(header.name), "", data, header.size)  # most members, and fast
        else:
            member = _member(read, start, data, header._replace(name=name or header.name), pax)
        if member.offset + member.length > size:
            raise BadShardError(
                f"member {member.name} claims {member.length} bytes where {max(size - member.offset, 0)} are "
                "left"
            )
        if member.kind != "folder":
            yield member
        at = start = member.offset + _padded(member.length)
        name, pax = None, {}
    if read(at, _TAIL).strip(b"\0"):  # readers of tar leave out what follows
        raise BadShardError(
            "bytes follow the end of the archive, as if archives were joined by cat",
            "Name each archive by itself, or join them by: tar --concatenate",
        )


def parse_header(block: bytes) -> _Header:
    """Return the header in a block of 512 bytes; BadShardError for a block that is cut short."""
    if len(block) < _BLOCK:
        raise BadShardError(
            _CUT_SHORT if block else "the archive is cut short: it ends without two blocks of zeros",
            "Copy the archive again; if its writer left the end out, append 1024 zero bytes.",
        )
    name, size, checksum, kind, magic, prefix = _FIELDS.unpack(block)
    stated = _number(checksum) + sum(checksum) - 8 * 0x20  # the sum has spaces in place of the checksum
    # The low half of Adler-32 is one more than the sum of the bytes, modulo 65521, and far faster than a sum.
    is_right = zlib.adler32(block) & 0xFFFF == (stated + 1) % 65521
    # Old tars sum bytes from -128 to 127.
    if not is_right and stated != sum(block) - 256 * sum(value > 127 for value in block):
        raise BadShardError("the checksum of a header does not match")
    name = name.partition(b"\0")[0]
    if prefix[0] and magic[:6] == _USTAR:
        name = prefix.partition(b"\0")[0] + b"/" + name
    return _Header(name, _number(size), kind, block)


def _number(field: bytes) -> int:
    """Return a number: octal digits or, if the first bit is set, the other bits (GNU tar)."""
    if field[0] & 0x80:
        if field[0] & 0x40:
            raise BadShardError("a header has a negative number")
        return int.from_bytes(field, "big") - (0x80 << 8 * (len(field) - 1))
    match = _OCTAL.fullmatch(field)
    if match is None:
        raise BadShardError(f"a header has {_text(field)!r} in place of a number")
    return int(match[1] or b"0", 8)


def parse_pax(data: bytes) -> dict[bytes, bytes]:
    """Return the records of a PAX extension, by keyword."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(data) and data[at]:
        match = _PAX_LENGTH.match(data, at)
        end = at + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise BadShardError("a PAX header has a record that is not whole")
        keyword, equals, value = data[match.end() : end - 1].partition(b"=")
        if not equals:
            raise BadShardError("a PAX header has a record without a value")
        records[keyword] = value
        at = end
    return records


def _member(read: Read, start: int, data: int, header: _Header, pax: Mapping[bytes, bytes]) -> Member:
    """Return the member that a header and the extensions before it describe."""
    name = pax.get(b"GNU.sparse.name", pax.get(b"path", header.name))
    size = header.size
    if (stated := pax.get(b"size")) is not None:
        if not re.fullmatch(rb"\d{1,19}", stated):
            raise BadShardError(f"a PAX header has {_text(stated)!r} in place of a size")
        size = int(stated)
    kind = _KINDS.get(header.kind, "" if header.kind in _REGULAR else "member of another type")
    if header.kind in _REGULAR and name.endswith(b"/"):  # before POSIX, folders had no type
        kind = "folder"
    if header.kind == _SPARSE:
        data = _behind_sparse_map(read, data, header)
    if header.kind == _SPARSE or any(keyword.startswith(b"GNU.sparse.") for keyword in pax):
        kind = "sparse file"
    if header.kind in _KINDS:
        size = 0  # as in GNU tar: a link states the size of its target
    return Member(start, _text(name), kind, data, size)


def _extension(read: Read, offset: int, header: _Header) -> bytes:
    if header.size > _LONGEST_EXTENSION:
        raise BadShardError(f"a header of {header.size} bytes, more than {_LONGEST_EXTENSION}")
    content = read(offset, header.size)
    if len(content) < header.size:
        raise BadShardError(_CUT_SHORT)
    for keyword in parse_pax(content) if header.kind == _PAX_GLOBAL else ():
        # Comments and times, as git writes them, change no member.
        if keyword in (b"path", b"size") or keyword.startswith(b"GNU.sparse."):
            raise BadShardError(f"a global PAX header sets {_text(keyword)} of all members")
    return content


def _behind_sparse_map(read: Read, at: int, header: _Header) -> int:
    """Return the offset after the blocks that continue the map of a sparse file."""
    goes_on = header.block[482]
    while goes_on:
        block = read(at, _BLOCK)
        if len(block) < _BLOCK:
            raise BadShardError(_CUT_SHORT)
        goes_on = block[504]
        at += _BLOCK
    return at


def _padded(size: int) -> int:
    return (size + _BLOCK - 1) & -_BLOCK


def _text(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    """Find the image of a sample, with its class and the columns that ``names`` asks for."""
    values = _Values(record)
    image = values.first(names.encoded)
    if image is None:
        # Parts of names such as 22.05.png count by their last suffix, which a pattern finds.
        split = (one.name.rpartition(".") for one in record.parts)
        there = sorted({f"*.{last}" if dot else last for _, dot, last in split})
        has = f"; it has {', '.join(there[:_SHOWN])}" if there else ""
        raise LeftOutError(f"sample without an image ({names.encoded}){has}")
    if image.kind:
        raise LeftOutError(f"image that is a {image.kind} in the archive")
    label = values.label(names.label) if names.label else None
    text = values.value(names.text) if names.text else None
    key = values.value(names.key) if names.key else None
    return ExternalSample(
        payload=image.span,
        key=record.key.decode() if key is None else str(key),
        label=label,
        text="" if text is None else str(text).strip(),
        columns={name: values.value(part) for name, part in names.columns.items()},
    )


class _Values:
    """The values in the parts of one sample: numbers and texts, also inside a member with JSON."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._parts = {part.name: part for part in record.parts}
        self._document: Any = None

    def first(self, names: str) -> RecordPart | None:
        found = (one for suffix in _suffixes(names) for one in self._parts if fnmatchcase(one, suffix))
        return next((self._parts[one] for one in found), None)

    def label(self, name: str) -> int | str | None:
        value = self.value(name)
        if isinstance(value, str):
            if not (whole := _WHOLE.fullmatch(value)) and not _FRACTION.fullmatch(value):
                return value.strip() or None
            value = int(whole[2]) if whole else float(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
            value = int(value)
        if isinstance(value, float) or (isinstance(value, int) and value < 0):
            raise SourceError(
                f"{name} must be an integer from 0 or a name, as it is a class, found {value}",
                hint="Leave out samples without a class, or name another member for the label, or none.",
            )
        return value

    def value(self, name: str) -> Value | None:
        """Return the value in a part: the text of ``txt``, or a field of JSON, ``json:caption``."""
        suffixes, colon, field = name.partition(":")
        if not colon:
            part = self.first(suffixes)
            return None if part is None else self._text(part).rstrip("\r\n")
        value = field_of(self._json(suffixes), field)
        if value is None or isinstance(value, (str, float)):
            return value
        if isinstance(value, int):
            return int(value)
        return JsonText(json.dumps(value, ensure_ascii=False, sort_keys=True))

    def _json(self, suffixes: str) -> Any:
        if self._document is None:
            part = self.first(suffixes) or self.first(_JSON)
            try:
                self._document = {} if part is None else json.loads(self._text(part))
            except (ValueError, RecursionError) as error:
                message = f"the member .{suffixes} is not JSON: {error}"
                raise SourceError(message, hint=_NAME_ANOTHER) from error
        return self._document

    def _text(self, part: RecordPart) -> str:
        if part.kind:
            return ""
        if part.span.length > _LONGEST_VALUE:
            raise SourceError(
                f"the member .{part.name} has {part.span.length} bytes, too many for a value",
                hint=_NAME_ANOTHER,
            )
        data = self._record.bytes_of(part.span)
        if b"\0" in data:
            raise SourceError(f"the member .{part.name} holds bytes that are not text", hint=_NAME_ANOTHER)
        return data.decode(errors="backslashreplace")


@lru_cache(maxsize=64)
def _suffixes(names: str) -> tuple[str, ...]:
    return tuple(name.strip().lower().lstrip(".") for name in names.split(";"))


def field_of(document: Any, name: str) -> Any:
    """Return a field of a JSON object, or of an object in it (``meta.label``); None if there is none."""
    if not isinstance(document, Mapping):
        return None
    if name in document:
        return document[name]
    first, dot, rest = name.partition(".")
    return field_of(document.get(first), rest) if dot else None


WEBDATASET = Container(
    name="webdataset",
    recognizes=_recognizes,
    scan=scan,
    parse_image=parse_image,
    feature_names=TAR_NAMES,
    scan_headers=scan_headers,
)
