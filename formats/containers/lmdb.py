"""The container LMDB: folders with a file ``data.mdb``, as Caffe and DALI's ``readers.caffe`` open them.

Shards are written with py-lmdb. They are read as flat files without LMDB, so that no damaged file can harm
the process. A value is contiguous in the file, in a leaf page or in a run of overflow pages, so a loader that
knows its offset can read it. The layout is data format 1 of LMDB 0.9 (structures ``MDB_meta``, ``MDB_db``,
``MDB_page`` and ``MDB_node`` in mdb.c) on a little-endian 64-bit machine. Numbers from the file are checked
against its size before they are used, and keys must ascend strictly. A walk reads each page at most once, and
so ends for any file.

A value is Caffe's Datum (caffe/proto/caffe.proto), or an encoded image alone.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import struct
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EIO, ENOSPC, errorcode
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stoker._native import crc32c
from stoker.errors import CorruptRecordError, SourceError, optional_import
from stoker.urls import join_url, split_query

from ..codecs.codec import Codec, ImageHeader
from ..files import file_digests, open_regular, read_at
from .container import BadShardError, Container, ReadStart, Record, Writing, WrittenShard, read_whole
from .image_record import ExternalSample, FeatureNames, ImageRecord, LeftOutError, StoredArray
from .protobuf import LENGTH, VARINT, Span, delimited, fields, signed, varint

_DATA_FILE = "data.mdb"
_MAGIC = 0xBEEFC0DE
_MAGIC_OFFSET = 16  # in the first meta page
_LONGEST_KEY = 511
_TRANSACTION = 2 << 20
_LEAST_MAP = 64 << 20
_LEAST_FREE = 1 << 20  # bytes; a disk with fewer is full

_PAGE = struct.Struct("<Q2xHHH")  # number, flags, lower, upper
# A meta page: number, flags; magic, version; the page size, in the tree of free pages; flags, depth, entries
# and root of the main tree; last page, transaction.
_META = struct.Struct("<Q2xH4x II16x I44x 4xHH24xQQ QQ")
_NODE = struct.Struct("<HHHH")  # size low, size high, flags, key size
_BRANCH, _LEAF, _OVERFLOW, _METAPAGE = 1, 2, 4, 8
_BIG, _SUBDATA, _DUPDATA = 1, 2, 4
_NO_PAGE = (1 << 64) - 1
_DEEPEST = 32  # CURSOR_STACK
_PAGE_SIZES = tuple(1 << power for power in range(9, 17))

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOATS, _ENCODED = range(1, 8)  # fields of a Datum
_MASK, _ARRAY = 1000, 1001  # not fields of Datum, so that Caffe and DALI ignore them
_OWN = {_MASK: "class mask of the Datum", _ARRAY: "array of the Datum"}
_ARRAY_NAME, _ARRAY_DTYPE, _ARRAY_SIDE, _ARRAY_DATA = range(1, 5)


class Node(NamedTuple):
    """A key, and the first byte in the file and the length of its value."""

    key: bytes
    offset: int
    length: int


class Datum(NamedTuple):
    """The fields of a Caffe Datum; an absent number is 0."""

    channels: int
    height: int
    width: int
    label: int
    encoded: bool  # Whether ``data`` is an encoded image; otherwise it is (channels, height, width) uint8
    data: Span | None  # Span of the bytes; None if there are none
    floats: bool  # Whether the Datum holds pixels as floats
    unread: tuple[str, ...] = ()  # What Stoker's own fields hold, which are not read


class _Tree(NamedTuple):
    """The main database of a file, as a meta page describes it."""

    page_size: int
    last_page: int
    transaction: int  # Number of the transaction that wrote the page
    depth: int
    entries: int
    root: int


def walk(descriptor: int, size: int) -> Iterator[Node]:
    """Yield the nodes of the main database of an open file of ``size`` bytes, ordered by key."""
    tree = _read_meta(descriptor, 0, 0)
    if tree is None:
        raise BadShardError("no LMDB meta page at the start of the file")
    second = _read_meta(descriptor, tree.page_size, 1)
    if second is None or second.page_size != tree.page_size:
        raise BadShardError("the second meta page is damaged")
    tree = max(tree, second, key=lambda one: one.transaction)
    if (stated := (tree.last_page + 1) * tree.page_size) > size:
        raise BadShardError(f"the file ends early: {size} bytes where the meta page says {stated}")
    if tree.root == _NO_PAGE and tree.entries:
        raise BadShardError(f"the meta page counts {tree.entries} entries and has no root")
    last: bytes | None = None
    count = 0
    nodes = _Walker(descriptor, tree).nodes(tree.root, tree.depth) if tree.root != _NO_PAGE else ()
    for count, node in enumerate(nodes, 1):
        if last is not None and node.key <= last:
            raise BadShardError(f"keys do not ascend at entry {count - 1}")
        last = node.key
        yield node
    if count != tree.entries:
        raise BadShardError(f"the meta page counts {tree.entries} entries, the pages hold {count}")


def _read_meta(descriptor: int, offset: int, number: int) -> _Tree | None:
    """Return the tree in the meta page at an offset; None if there is no meta page."""
    data = read_at(descriptor, offset, _META.size).ljust(_META.size, b"\0")
    page, flags, magic, version, page_size, db_flags, *tree, last_page, transaction = _META.unpack(data)
    if magic != _MAGIC or page != number or not flags & _METAPAGE:
        return None
    if version != 1:
        raise BadShardError(f"LMDB data format {version}; only format 1, of LMDB 0.9, can be read")
    if page_size not in _PAGE_SIZES:
        raise BadShardError(f"the meta page says pages of {page_size} bytes")
    if db_flags:
        raise BadShardError(
            f"the database has flags {db_flags:#x}: only plain keys in byte order can be read"
        )
    if tree[0] > _DEEPEST:
        raise BadShardError(f"the meta page says a tree of depth {tree[0]}")
    return _Tree(page_size, last_page, transaction, *tree)


class _Walker:
    """Reads pages, at most as many as the file has."""

    def __init__(self, descriptor: int, tree: _Tree) -> None:
        self._descriptor = descriptor
        self._page_size = tree.page_size
        self._last_page = tree.last_page
        self._left = tree.last_page + 1

    def nodes(self, number: int, depth: int) -> Iterator[Node]:
        """Yield the nodes under a page at level ``depth``; the leaves have level 1."""
        page, flags = self._read(number, 1)
        if depth < 1 or flags != (_LEAF if depth == 1 else _BRANCH):
            raise BadShardError(f"page {number} has flags {flags:#x} at {depth} levels above the bottom")
        for at in self._pointers(number, page):
            if depth == 1:
                yield self._leaf(number, page, at)
            else:
                low, high, top, _ = _NODE.unpack_from(page, at)
                yield from self.nodes(low | high << 16 | top << 32, depth - 1)

    def _read(self, number: int, pages: int) -> tuple[bytes, int]:
        """Return the first of some pages, and its flags."""
        if number < 2 or number + pages - 1 > self._last_page:
            raise BadShardError(f"pages {number} to {number + pages - 1} where the last is {self._last_page}")
        self._left -= pages
        if self._left < 0:
            raise BadShardError("pages are referred to more than once")
        page = read_at(self._descriptor, number * self._page_size, self._page_size)
        if len(page) < self._page_size:
            raise BadShardError(f"page {number} is cut off")
        stored, flags, _, _ = _PAGE.unpack_from(page)
        if stored != number:
            raise BadShardError(f"page {number} says it is page {stored}")
        return page, flags

    def _pointers(self, number: int, page: bytes) -> tuple[int, ...]:
        """Return the offsets of the nodes in a page, each with room for a node's header."""
        _, _, lower, upper = _PAGE.unpack_from(page)
        if not _PAGE.size < lower <= upper <= len(page) or lower % 2:
            raise BadShardError(f"page {number} has bounds {lower} and {upper}")
        pointers = struct.unpack_from(f"<{(lower - _PAGE.size) // 2}H", page, _PAGE.size)
        if min(pointers) < upper or max(pointers) > len(page) - _NODE.size:
            raise BadShardError(f"page {number} has a node out of bounds")
        return pointers

    def _leaf(self, number: int, page: bytes, at: int) -> Node:
        low, high, flags, key_size = _NODE.unpack_from(page, at)
        if flags & (_SUBDATA | _DUPDATA):
            raise BadShardError("the file holds named or sorted-duplicate databases, which cannot be read")
        if flags & ~_BIG:
            raise BadShardError(f"page {number} has a node with flags {flags:#x}")
        start = at + _NODE.size + key_size
        length = low | high << 16
        if start + (8 if flags else length) > len(page):
            raise BadShardError(f"page {number} has a value out of bounds")
        key = page[at + _NODE.size : start]
        if not flags:
            return Node(key, number * self._page_size + start, length)
        return Node(key, self._overflow(struct.unpack_from("<Q", page, start)[0], length), length)

    def _overflow(self, number: int, length: int) -> int:
        """Check a run of overflow pages and return the offset of the value in it."""
        pages = -(-(_PAGE.size + length) // self._page_size)
        page, flags = self._read(number, pages)
        _, _, low, high = _PAGE.unpack_from(page)
        if flags != _OVERFLOW or low | high << 16 < pages:
            raise BadShardError(f"page {number} is not the start of {pages} overflow pages")
        return number * self._page_size + _PAGE.size


def scan(path: Path) -> Iterator[Record]:
    """Yield the records of an LMDB data file in the order of their keys."""
    # LMDB stores no checksums: a damaged page is found, but a damaged value is not.
    number = 0
    with open_regular(path) as (descriptor, size):
        try:
            for node in walk(descriptor, size):
                value = memoryview(read_whole(descriptor, node.offset, node.length))
                yield Record(number, node.key, node.offset, node.length, value)
                number += 1
        except BadShardError as error:
            shard = path.parent.name if path.name == _DATA_FILE else path.name
            raise error.about(number, path, shard) from error


class LMDBWriter:
    """Writes one LMDB shard; a :class:`.container.ShardWriter`.

    Keys are Caffe's: the record's number in eight digits, an underscore and the sample's name
    (tools/convert_imageset.cpp), cut to the 511 bytes that LMDB allows. The same records give the
    same bytes: the size of the map, which LMDB stores, depends only on the records.
    """

    def __init__(self, path: Path) -> None:
        with optional_import("writing LMDB needs the package lmdb; reading does not", "lmdb"):
            import lmdb

        self._path = path
        self._path.mkdir()
        self._values: list[tuple[bytes, bytes]] = []
        self._pending = 0
        self._written = 0
        self._map_size = _LEAST_MAP
        self._payloads = array("q")  # for each: the bytes before it, its bytes and its checksum
        with _os_errors(path):
            self._env = lmdb.open(
                os.fspath(path), map_size=self._map_size, lock=False, sync=False, metasync=False
            )

    def __enter__(self) -> LMDBWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._env.close()

    def write(self, key: bytes, prefix: bytes, payload: Any, suffix: bytes) -> None:
        value = b"".join((prefix, payload, suffix))
        size = memoryview(payload).nbytes
        self._values.append((b"%08d_%b" % (len(self._payloads) // 3, key), value))
        self._payloads.extend((len(prefix), size, crc32c(payload)))
        self._pending += len(value)
        if self._pending >= _TRANSACTION:
            self._commit()

    def _commit(self) -> None:
        # A value takes less than twice its bytes; a small one takes a page.
        self._written += 2 * self._pending + 8192 * len(self._values)
        with _os_errors(self._path):
            while self._map_size < self._written + _LEAST_MAP // 2:
                self._map_size *= 2
                self._env.set_mapsize(self._map_size)
            with self._env.begin(write=True) as transaction:
                for key, value in self._values:
                    stored = transaction.put(key[:_LONGEST_KEY], value, append=True)
                    assert stored, "keys ascend, because they start with the number"
        self._values.clear()
        self._pending = 0

    def finish(self) -> WrittenShard:
        self._commit()
        self._env.close()
        path = _data_file(self._path)
        prefix, length, crc = np.array(self._payloads).reshape(-1, 3).T
        with open_regular(path) as (descriptor, size):
            values = np.fromiter((node.offset for node in walk(descriptor, size)), np.int64, len(prefix))
        return WrittenShard(
            files=(path,),
            data_bytes=size,
            records=len(prefix),
            digests=file_digests(path),
            offset=values + prefix,
            length=length.copy(),
            crc=crc.astype(np.uint32),
        )


@contextmanager
def _os_errors(path: Path) -> Iterator[None]:
    """Raise an OSError for an error of the operating system that py-lmdb reports."""
    import lmdb

    try:
        yield
    except lmdb.Error as error:
        words = str(error).rpartition(": ")[2]  # py-lmdb 2 has no error numbers
        code = next((number for number in errorcode if os.strerror(number) == words), None)
        if code is None:
            raise
        # LMDB reports a write that the disk took in part as EIO (mdb_page_flush in mdb.c).
        if code == EIO and shutil.disk_usage(path).free < _LEAST_FREE:
            code = ENOSPC
        raise OSError(code, os.strerror(code), os.fspath(path)) from error


def _data_file(shard: Path) -> Path:
    return shard if shard.is_file() else shard / _DATA_FILE


def _recognizes(read_start: ReadStart) -> bool:
    size = _MAGIC_OFFSET + 4
    if read_start(_DATA_FILE, size) is not None:
        return True
    return (read_start("", size) or b"")[_MAGIC_OFFSET:] == _MAGIC.to_bytes(4, "little")


def wrap_image(image: ImageRecord) -> tuple[bytes, bytes]:
    """Return the bytes of a Datum before and after an encoded image. It has the first label and the mask."""
    sizes = ((_CHANNELS, 3), (_HEIGHT, image.height), (_WIDTH, image.width))
    prefix = b"".join(_number(*size) for size in sizes) + delimited(_DATA, b"", image.payload_bytes)
    suffix = (_number(_LABEL, image.labels[0]) if image.labels else b"") + _number(_ENCODED, 1)
    return prefix, suffix + (delimited(_MASK, image.mask) if image.mask else b"")


def _number(number: int, value: int) -> bytes:
    return varint(number << 3 | VARINT) + varint(value)


def wrap_array(array: StoredArray) -> tuple[bytes, bytes]:
    """Return the bytes of a further field of a Datum before the bytes of an array and after them."""
    # An array is a message in field 1001, which other readers of a Datum ignore: its name (field 1), its
    # dtype (2), the sides of its shape (3), and its bytes (4).
    head = delimited(_ARRAY_NAME, array.name.encode()) + delimited(_ARRAY_DTYPE, array.dtype.encode())
    head += b"".join(_number(_ARRAY_SIDE, side) for side in array.shape)
    size = len(array.data)
    return delimited(_ARRAY, head + delimited(_ARRAY_DATA, b"", size), size), b""


def parse_datum(data: memoryview | bytes) -> Datum:
    """Return the fields of a Datum."""
    view = memoryview(data)
    numbers: dict[int, int] = {}
    payload: Span | None = None
    floats, unread = False, []
    for field in fields(view, Span(0, len(view))):
        if field.number == _DATA and field.wire == LENGTH:
            payload = field.span
        elif field.number == _FLOATS:
            floats = True
        elif field.wire == VARINT:
            numbers[field.number] = signed(field.value)
        elif field.number in _OWN:
            unread.append(_OWN[field.number])
    channels, height, width, label = (numbers.get(n, 0) for n in (_CHANNELS, _HEIGHT, _WIDTH, _LABEL))
    return Datum(channels, height, width, label, bool(numbers.get(_ENCODED)), payload, floats, tuple(unread))


_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_OF_RECOGNITION = re.compile(rb"label-\d+|num-samples")  # as CRNN's create_dataset.py writes them


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    """Find the image in a record that holds a Caffe Datum, with fixed names, or an encoded image."""
    if _PICKLE.match(record.view):
        raise LeftOutError("pickled record, which is never unpacked")
    if _OF_RECOGNITION.fullmatch(record.key):
        raise LeftOutError("text of text recognition, which is not read")
    key = record.key.decode(errors="backslashreplace")
    datum: Datum | None = None
    with suppress(CorruptRecordError):
        datum = parse_datum(record.view)
    if datum is None or (datum.data is None and not datum.floats):
        return ExternalSample(Span(0, record.length), key)
    header = None
    sizes = datum[:3]
    if datum.data and not datum.encoded and min(sizes) > 0 and math.prod(sizes) == datum.data.length:
        header = ImageHeader(Codec.PLANES, datum.height, datum.width, 1)
    if datum.data is None or (header is not None and datum.channels not in (1, 3)):
        content = "floats" if datum.data is None else f"pixels of {datum.channels} channels"
        raise SourceError(
            f"the Datum must hold grey or colours of 8 bits, or an encoded image, found {content}",
            hint="Images are read from what Caffe's convert_imageset writes, with --encoded or without.",
        )
    return ExternalSample(datum.data, key, datum.label, header=header, unread=datum.unread)


LMDB = Container(
    name="lmdb",
    recognizes=_recognizes,
    data_file=_data_file,
    data_url=lambda shard: shard if split_query(shard)[0].endswith(".mdb") else join_url(shard, _DATA_FILE),
    scan=scan,
    parse_image=parse_image,
    writing=Writing(suffix=".lmdb", writer=LMDBWriter, wrap_image=wrap_image, wrap_array=wrap_array),
)
