"""A reader of LMDB's data format that works without LMDB, so that no damaged file can harm the process.

A value is contiguous in the file, in a leaf page or in a run of overflow pages, so a loader that knows its
offset can read it. The layout is data format 1 of LMDB 0.9 (structures ``MDB_meta``, ``MDB_db``, ``MDB_page``
and ``MDB_node`` in mdb.c) on a little-endian 64-bit machine. Numbers from the file are checked against its
size before they are used, and keys must ascend strictly. A walk reads each page at most once, and so ends for
any file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..files.reading import read_at

_MAGIC = 0xBEEFC0DE
_PAGE = struct.Struct("<QHHHH")  # number, pad, flags, lower, upper
_META = struct.Struct("<IIQQ")  # magic, version, address, map size
_DB = struct.Struct("<IHHQQQQQ")  # pad, flags, depth, branch, leaf and overflow pages, entries, root
_META_END = struct.Struct("<QQ")  # last page, transaction
_NODE = struct.Struct("<HHHH")  # size low, size high, flags, key size
_META_BYTES = _PAGE.size + _META.size + 2 * _DB.size + _META_END.size

_BRANCH, _LEAF, _OVERFLOW, _METAPAGE = 1, 2, 4, 8
_BIG, _SUBDATA, _DUPDATA = 1, 2, 4
_NO_PAGE = (1 << 64) - 1
_DEEPEST = 32  # CURSOR_STACK
_PAGE_SIZES = tuple(1 << power for power in range(9, 17))


class BadPageError(ValueError):
    """The file is not a whole LMDB data file; the message names the page."""


class Node(NamedTuple):
    """A key, and the first byte in the file and the length of its value."""

    key: bytes
    offset: int
    length: int


@dataclass(frozen=True)
class Tree:
    """The main database of a file, as its newer meta page describes it."""

    page_size: int
    last_page: int
    entries: int
    depth: int
    root: int


def walk(descriptor: int, size: int) -> Iterator[Node]:
    """Yield the nodes of the main database of an open file of ``size`` bytes, ordered by key."""
    tree = _read_tree(descriptor, size)
    if tree.root == _NO_PAGE:
        if tree.entries:
            raise BadPageError(f"the meta page counts {tree.entries} entries and has no root")
        return
    last: bytes | None = None
    count = 0
    for node in _Walker(descriptor, tree).nodes(tree.root, tree.depth):
        if last is not None and node.key <= last:
            raise BadPageError(f"keys do not ascend at entry {count}")
        last = node.key
        count += 1
        yield node
    if count != tree.entries:
        raise BadPageError(f"the meta page counts {tree.entries} entries, the pages hold {count}")


def _read_tree(descriptor: int, size: int) -> Tree:
    first = _read_meta(read_at(descriptor, 0, _META_BYTES), 0)
    if first is None:
        raise BadPageError("no LMDB meta page at the start of the file")
    page_size = first[0].page_size
    second = _read_meta(read_at(descriptor, page_size, _META_BYTES), 1)
    if second is None or second[0].page_size != page_size:
        raise BadPageError("the second meta page is damaged")
    tree, _ = max((first, second), key=lambda meta: meta[1])
    if (tree.last_page + 1) * page_size > size:
        raise BadPageError(
            f"the file ends early: {size} bytes where the meta page says {(tree.last_page + 1) * page_size}"
        )
    return tree


def _read_meta(data: bytes, number: int) -> tuple[Tree, int] | None:
    """Return the tree in a meta page and the transaction that wrote it; None if there is no meta page."""
    if len(data) < _META_BYTES:
        return None
    page_number, _, flags, _, _ = _PAGE.unpack_from(data, 0)
    magic, version, _, _ = _META.unpack_from(data, _PAGE.size)
    if magic != _MAGIC or page_number != number or not flags & _METAPAGE:
        return None
    if version != 1:
        raise BadPageError(f"LMDB data format {version}; only format 1, that of LMDB 0.9, can be read")
    at = _PAGE.size + _META.size
    page_size = _DB.unpack_from(data, at)[0]
    _, db_flags, depth, _, _, _, entries, root = _DB.unpack_from(data, at + _DB.size)
    last_page, transaction = _META_END.unpack_from(data, at + 2 * _DB.size)
    if page_size not in _PAGE_SIZES:
        raise BadPageError(f"the meta page says pages of {page_size} bytes")
    if db_flags:
        raise BadPageError(f"the database has flags {db_flags:#x}: only plain keys in byte order can be read")
    if depth > _DEEPEST:
        raise BadPageError(f"the meta page says a tree of depth {depth}")
    return Tree(page_size, last_page, entries, depth, root), transaction


class _Walker:
    """Reads pages, at most as many as the file has."""

    def __init__(self, descriptor: int, tree: Tree) -> None:
        self._descriptor = descriptor
        self._page_size = tree.page_size
        self._last_page = tree.last_page
        self._left = tree.last_page + 1

    def nodes(self, number: int, depth: int) -> Iterator[Node]:
        """Yield the nodes under a page at level ``depth``; the leaves have level 1."""
        page, flags = self._page(number)
        if depth < 1 or flags != (_LEAF if depth == 1 else _BRANCH):
            raise BadPageError(f"page {number} has flags {flags:#x} at {depth} levels above the bottom")
        for at in self._pointers(number, page):
            if depth == 1:
                yield self._leaf(number, page, at)
            else:
                yield from self.nodes(_child(page, at), depth - 1)

    def _page(self, number: int) -> tuple[bytes, int]:
        self._claim(number, 1)
        page = read_at(self._descriptor, number * self._page_size, self._page_size)
        if len(page) < self._page_size:
            raise BadPageError(f"page {number} is cut off")
        stored, _, flags, _, _ = _PAGE.unpack_from(page, 0)
        if stored != number:
            raise BadPageError(f"page {number} says it is page {stored}")
        return page, flags

    def _claim(self, number: int, pages: int) -> None:
        if number < 2 or number + pages - 1 > self._last_page:
            raise BadPageError(f"pages {number} to {number + pages - 1} where the last is {self._last_page}")
        self._left -= pages
        if self._left < 0:
            raise BadPageError("pages are referred to more than once")

    def _pointers(self, number: int, page: bytes) -> tuple[int, ...]:
        """Return the offsets of the nodes in a page, each with room for a node's header."""
        _, _, _, lower, upper = _PAGE.unpack_from(page, 0)
        if not _PAGE.size < lower <= upper <= len(page) or lower % 2:
            raise BadPageError(f"page {number} has bounds {lower} and {upper}")
        pointers = struct.unpack_from(f"<{(lower - _PAGE.size) // 2}H", page, _PAGE.size)
        if min(pointers) < upper or max(pointers) > len(page) - _NODE.size:
            raise BadPageError(f"page {number} has a node out of bounds")
        return pointers

    def _leaf(self, number: int, page: bytes, at: int) -> Node:
        low, high, flags, key_size = _NODE.unpack_from(page, at)
        if flags & (_SUBDATA | _DUPDATA):
            raise BadPageError("the file holds named or sorted-duplicate databases, which cannot be read")
        if flags & ~_BIG:
            raise BadPageError(f"page {number} has a node with flags {flags:#x}")
        start = at + _NODE.size + key_size
        length = low | high << 16
        if start + (8 if flags else length) > len(page):
            raise BadPageError(f"page {number} has a value out of bounds")
        key = page[at + _NODE.size : start]
        if not flags:
            return Node(key, number * self._page_size + start, length)
        return Node(key, self._overflow(struct.unpack_from("<Q", page, start)[0], length), length)

    def _overflow(self, number: int, length: int) -> int:
        """Check a run of overflow pages and return the offset of the value in it."""
        pages = -(-(_PAGE.size + length) // self._page_size)
        self._claim(number, pages)
        header = read_at(self._descriptor, number * self._page_size, _PAGE.size)
        if len(header) < _PAGE.size:
            raise BadPageError(f"page {number} is cut off")
        stored, _, flags, low, high = _PAGE.unpack(header)
        if stored != number or flags != _OVERFLOW or low | high << 16 < pages:
            raise BadPageError(f"page {number} is not the start of {pages} overflow pages")
        return number * self._page_size + _PAGE.size


def _child(page: bytes, at: int) -> int:
    low, high, top, _ = _NODE.unpack_from(page, at)
    return int(low | high << 16 | top << 32)
