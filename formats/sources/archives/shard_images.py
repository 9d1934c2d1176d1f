"""The images of shards and archives, gathered one shard after the other into a listing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...dataset.columns.strings import Strings
from ..listing import FileRanges, ListedBlocks, Listing, Skip
from ..lists.entry_columns import EntryColumns


class ShardImage(NamedTuple):
    """An image in a shard."""

    key: str  # Its name
    offset: int  # Its first byte in the file
    length: int  # Its bytes
    entry: dict[str, Any]  # The values of its sample by name: path, label, and its columns
    record: int = 0  # Number of its record in the shard
    pieces: int = 1  # Pieces in which its record lies


class ShardImages(NamedTuple):
    """A shard's bytes, the time of its last change, its images, and the entries that are left out."""

    size: int
    modified: int
    images: list[ShardImage]
    skipped: list[Skip]


class Gathered:
    """The images of shards, which are added one after the other."""

    def __init__(self) -> None:
        self._columns = EntryColumns(cells=False)
        self._keys = Strings()
        self._sizes: list[int] = []
        self._modified: list[int] = []
        self._labelled: set[bool] = set()
        self._ranges: list[tuple[int, int, int, int, int]] = []  # shard, record, offset, bytes, pieces
        self.skipped: list[Skip] = []

    def __len__(self) -> int:
        """The number of images."""
        return len(self._ranges)

    def add(self, shard: ShardImages) -> None:
        """Add the images of the next shard."""
        number = len(self._sizes)
        self._sizes.append(shard.size)
        self._modified.append(shard.modified)
        self.skipped += shard.skipped
        for image in shard.images:
            self._keys.add(image.key.encode(errors="backslashreplace"))
            self._labelled.add(image.entry["label"] is not None)
            self._ranges.append((number, image.record, image.offset, image.length, image.pieces))
        for _ in self._columns.gather(image.entry for image in shard.images):
            pass

    def listing(self, files: Sequence[str], compressed_column: str | None = None) -> Listing:
        """Return the listing of all images, one at least."""
        if len(self._labelled) > 1:
            raise ValueError("some samples have a class and some have none")
        shard, record, offset, length, pieces = np.array(self._ranges, np.int64).T
        rows = np.arange(len(shard), dtype=np.int64)
        labels, classes = self._columns.labels(rows) if True in self._labelled else (None, ())
        file, sizes = shard.astype(np.int32), tuple(self._sizes)
        blocks = ranges = None
        if compressed_column is None:
            cut = pieces.astype(np.int32) if pieces.max() > 1 else None
            ranges = FileRanges(tuple(files), sizes, file, offset.copy(), cut)
        else:
            zeros, at = np.zeros(len(rows), np.int32), record.astype(np.int32)
            blocks = ListedBlocks(tuple(files), sizes, compressed_column, file, zeros, at, kind="mds")
        return Listing(
            files[0].rpartition("/")[0],
            self._keys.to_arrow(),
            length.copy(),
            np.array(self._modified, np.int64)[file],
            labels=labels,
            classes=classes,
            columns=self._columns.others(rows),
            skipped=tuple(sorted(self.skipped)),
            ranges=ranges,
            blocks=blocks,
        )
