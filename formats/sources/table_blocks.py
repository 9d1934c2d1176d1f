"""The images in the rows of tables, read for a conversion in the order of the rows or in any other order.

A block, such as a row group of Parquet, can be read from its start alone. In the order of the rows, a few
blocks are open, and only the last rows of each are in memory. In a shuffled order, the images of a block are
copied to a temporary file when the first of them is needed, and are read from there.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..files import read_at
from .archives import mds_images
from .listing import ListedBlocks
from .tables import checked, opened_table, reading_table, row_group_columns

_PIECE = 1 << 20  # bytes of images that are decompressed at once
_MOST_ROWS = 64
_MOST_FILES = 16  # whose footers are kept


class BlockImages:
    """The images of a listing that lie in blocks of files. Threads may share it; a copy has no open file.

    Images in a shuffled order are read through a temporary file in ``folder``; for others it is None.
    """

    def __init__(self, blocks: ListedBlocks, folder: str | None, num_threads: int) -> None:
        self._blocks = blocks
        self._folder = folder
        self._num_threads = num_threads
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[int, int], _OpenBlock] = OrderedDict()
        self._metadata: OrderedDict[int, Any] = OrderedDict()
        self._spool: _Spool | None = None
        self._most_open = 4 + 2 * num_threads  # the rows of a thread may lie in two blocks

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockImages, (self._blocks, self._folder, self._num_threads)

    def read(self, file: int, block: int, row: int) -> bytes | None:
        """The bytes in a row of a block; None if it has none."""
        if self._folder is not None:
            with self._lock:
                self._spool = self._spool or _Spool(self._folder)
            return self._spool.read((file, block), row, partial(self._pieces, file, block))
        return self._block(file, block).read(row)

    def close(self) -> None:
        """Close all files; the object can be used again."""
        with self._lock:
            opened = list(self._open.values())
            self._open.clear()
            self._spool = None
        for block in opened:
            block.close()

    def _block(self, file: int, block: int) -> _OpenBlock:
        """An open block; of the others, those that were not used for longest are closed."""
        unused = []
        with self._lock:
            opened = self._open.get((file, block))
            if opened is None:
                most = (16 + 2 * self._num_threads) << 20  # more than between the rows that threads read
                opened = self._open[file, block] = _OpenBlock(partial(self._pieces, file, block), most)
            self._open.move_to_end((file, block))
            while len(self._open) > self._most_open:
                unused.append(self._open.popitem(last=False)[1])
        for closing in unused:
            closing.close()  # waits for its reader, which may need the lock of this object meanwhile
        return opened

    def _pieces(self, file: int, block: int) -> Generator[pa.Array]:
        """The images of a block, some rows at a time."""
        path, size, column = self._blocks.files[file], self._blocks.file_sizes[file], self._blocks.column
        with ExitStack() as stack:
            stack.enter_context(reading_table(path))
            if os.path.lexists(path) and (found := os.stat(path).st_size) != size:  # noqa: PTH116 - may be a URL
                raise ValueError(f"it had {size} bytes when it was listed, and has {found}")
            if self._blocks.kind == "mds":
                yield from mds_images(path, column)
                return
            opened = stack.enter_context(opened_table(path, size, self._metadata.get(file)))
            if isinstance(opened, pq.ParquetFile):
                self._keep(file, opened.metadata)
                group = opened.metadata.row_group(block)
                left, most = group.num_rows, _piece_rows(group, column)
                batches = opened.iter_batches(most, row_groups=[block], columns=[column], use_threads=False)
            else:
                whole = next(batch for number, batch in enumerate(opened) if number == block)
                rows = checked(whole.select([column]))
                left = len(rows)
                batches = (rows.slice(start, _MOST_ROWS) for start in range(0, left, _MOST_ROWS))
            for batch in batches:
                left -= len(batch)
                if not left:
                    break
                yield _images(batch.column(column))
            # The memory of the file is free before its last images are used: a new file takes the same.
            del batches
        yield _images(batch.column(column))

    def _keep(self, file: int, metadata: Any) -> None:
        with self._lock:
            self._metadata[file] = metadata
            while len(self._metadata) > _MOST_FILES:
                self._metadata.popitem(last=False)


def _images(column: pa.Array) -> pa.Array:
    return pc.struct_field(column, "bytes") if pa.types.is_struct(column.type) else column


def _piece_rows(group: Any, column: str) -> int:
    """Number of rows of a row group with about a megabyte of images."""
    paths = (column, f"{column}.bytes")
    size = sum(one.total_uncompressed_size for one in row_group_columns(group) if one.path_in_schema in paths)
    return int(min(max(_PIECE * group.num_rows // max(size, 1), 1), _MOST_ROWS))


@dataclass(eq=False)
class _Piece:
    """Some rows of a block: the first one, their images, and the number of rows not yet asked for."""

    first: int
    images: pa.Array
    unread: int


class _OpenBlock:
    """A block that is read from its start to its end, with the rows that are not yet asked for.

    Threads ask for rows nearly in order, and for each once. A row that is no longer in memory restarts the
    block.
    """

    def __init__(self, pieces: Callable[[], Generator[pa.Array]], most: int) -> None:
        self._begin = pieces
        self._lock = threading.Lock()
        self._most = most
        self._restart()

    def _restart(self) -> None:
        self._pieces = self._begin()
        self._kept: list[_Piece] = []
        self._next = 0

    def read(self, row: int) -> bytes | None:
        """The bytes in a row; None if it has none."""
        with self._lock:
            piece = self._find(row)
            piece.unread -= 1
            if not piece.unread:  # its memory serves the next piece
                self._kept.remove(piece)
            value: bytes | None = piece.images[row - piece.first].as_py()
        return value

    def close(self) -> None:
        """Close the file; a row that is read later opens it again."""
        with self._lock:
            self._pieces.close()
            self._restart()

    def _find(self, row: int) -> _Piece:
        if row < self._next:
            holding = [piece for piece in self._kept if piece.first <= row < piece.first + len(piece.images)]
            if holding:
                return holding[0]
            self._restart()
        while row >= self._next:
            self._advance()
        return self._kept[-1]

    def _advance(self) -> None:
        images = next(self._pieces, None)
        if images is None:
            raise ValueError("a block has fewer rows than when it was listed")
        self._kept.append(_Piece(self._next, images, len(images)))
        self._next += len(images)
        while len(self._kept) > 2 and sum(piece.images.nbytes for piece in self._kept) > self._most:
            self._kept.pop(0)


class _Spool:
    """A temporary file with the images of blocks, in the folder or the nearest one above it that exists."""

    def __init__(self, folder: str) -> None:
        existing = next((path for path in [Path(folder), *Path(folder).parents] if path.is_dir()), None)
        with tempfile.TemporaryFile(dir=existing) as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._size = 0
        self._lock = threading.Lock()
        self._locks: defaultdict[tuple[int, int], threading.Lock] = defaultdict(threading.Lock)
        # Of each block the first byte and the length of each image, (2, N) int64; length -1 for no image.
        self._blocks: dict[tuple[int, int], npt.NDArray[np.int64]] = {}

    def read(
        self, block: tuple[int, int], row: int, pieces: Callable[[], Iterator[pa.Array]]
    ) -> bytes | None:
        """The bytes in a row of a block; None if it has none."""
        with self._lock:
            lock = self._locks[block]
        with lock:
            if block not in self._blocks:
                self._blocks[block] = self._copy(pieces())
        start, length = self._blocks[block][:, row].tolist()
        return None if length < 0 else read_at(self._file, start, length)

    def _copy(self, pieces: Iterator[pa.Array]) -> npt.NDArray[np.int64]:
        """Copy the images of a block to the end of the file, where other blocks are copied to as well."""
        places = []
        for images in pieces:
            lengths = pc.fill_null(pc.cast(pc.binary_length(images), pa.int64()), -1)
            sizes = np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
            stored = np.maximum(sizes, 0)
            with self._lock:
                at, self._size = self._size, self._size + int(stored.sum())
            places.append(np.stack((at + np.cumsum(stored) - stored, sizes)))
            left = memoryview(b"".join(image.as_buffer() for image in images if image.is_valid))
            while left:
                written = os.pwrite(self._file, left, at)
                left, at = left[written:], at + written
        return np.concatenate(places, axis=1)
