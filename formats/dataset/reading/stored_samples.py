"""Samples of an index with their bytes in data files, the base of :class:`.dataset.Dataset`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._native import crc32c
from stoker.errors import CorruptRecordError, DatasetError, SampleError, StaleIndexError

from ...containers.registry import find_container
from ...files.reading import open_regular, read_at
from ..columns.annotation_columns import MASK_COLUMNS, columns_of, from_columns, tasks_of
from ..columns.annotations import Annotations
from ..columns.array_columns import ArrayColumn, range_columns, shape_column
from ..columns.list_column import ListColumn, take_lists
from ..columns.origin_columns import ORIGIN_COLUMNS, Origins, has_origins
from ..index import Index
from ..manifest import Manifest
from ..selection.selected_rows import SelectedRows
from .samples import NO_CHECKSUM


class StoredSamples(SelectedRows):
    """Rows of an index, whose payloads, masks, arrays and lists can be read.

    Attributes:
        path: The dataset's folder.
        manifest: The content of ``dataset.json``.
        data_files: Absolute path of every shard's data file, by the index column ``shard``.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        index: Index,
        data_files: list[Path],
        rows: npt.NDArray[np.int64] | None,
    ) -> None:
        super().__init__(index, rows)
        self.path = path
        self.manifest = manifest
        self.data_files = data_files

    @property
    def types(self) -> dict[str, str]:
        """Name and type of the index's columns."""
        return dict(self.manifest.columns)

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks that the samples have annotations for.

        They are some of: label (one for each sample), labels (several), boxes, keypoints, instances (polygons
        or run lengths of objects), segmentation (a mask of classes).
        """
        return tasks_of(self.manifest.columns)

    @property
    def data_sizes(self) -> list[int]:
        """Bytes of every data file, in the order of :attr:`data_files`."""
        return [shard.bytes for shard in self.manifest.shards]

    @property
    def arrays(self) -> Mapping[str, ArrayColumn]:
        """Dtype and shape of the array columns, by name; a side is None if arrays differ in it."""
        return self.manifest.arrays

    def lists(self, name: str, positions: npt.ArrayLike) -> ListColumn:
        """Return the lists of M samples in an index column of lists, such as several labels a sample.

        Raises:
            StaleIndexError: A list lies beyond the column, because the index is damaged.
        """
        rows = self._to_rows(positions)
        try:
            return self.index.lists(name).take(rows)
        except ValueError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: ValueError) -> StaleIndexError:
        return StaleIndexError(
            f"the index is damaged: {error}", path=self.path, hint="stoker verify says where"
        )

    def read(self, position: int) -> bytes:
        """Return the payload of one sample; its checksum is verified.

        Raises:
            CorruptRecordError: The bytes are not those that were written; names shard, record, key.
            OSError: The data file cannot be read, or an image file has changed since it was listed.
        """
        row = int(self._to_rows([position])[0])
        return self._read(position, row, ("offset", "length", "crc"), "payload")

    def annotations(self, positions: npt.ArrayLike, parts: Collection[str] | None = None) -> Annotations:
        """Return the objects of samples.

        Args:
            positions: (M,) integers from 0 to ``len(self) - 1``; ``Annotations.owner`` is 0 to M - 1.
            parts: The optional attributes to read: keypoints, polygons, runs, extra. None for all.

        Raises:
            StaleIndexError: The index contradicts itself.
        """
        rows = self._to_rows(positions)
        names = columns_of(self.manifest.columns, parts)
        try:
            taken = take_lists({name: self.index.lists(name) for name in names}, rows)
            return from_columns(taken, len(rows), len(self.manifest.annotations.keypoints))
        except ValueError as error:
            raise self._damaged(error) from error

    def origins(self, positions: npt.ArrayLike) -> Origins:
        """Return the way from stored images back to the images that a conversion has resized."""
        rows = self._to_rows(positions)
        matrices = np.tile(np.eye(3), (len(rows), 1, 1))
        if not has_origins(self.manifest.columns):
            sizes = [self.index.column(name)[rows] for name in ("height", "width")]
            return Origins(np.stack(sizes, axis=1).astype(np.int64), matrices)
        height, width, left, top, scale_x, scale_y = (
            self.index.column(name)[rows] for name in ORIGIN_COLUMNS
        )
        matrices[:, 0, 0], matrices[:, 1, 1] = scale_x, scale_y
        matrices[:, 0, 2], matrices[:, 1, 2] = left, top
        return Origins(np.stack((height, width), axis=1).astype(np.int64), matrices)

    def mask(self, position: int) -> bytes:
        """Return the mask of one sample, a PNG of one channel with classes; its checksum is verified.

        Raises:
            DatasetError: The dataset has no masks.
            CorruptRecordError: The bytes are not those that were written; names shard, record, key.
            OSError: The data file cannot be read.
        """
        row = int(self._to_rows([position])[0])
        return self._read(position, row, tuple(MASK_COLUMNS), "mask")

    def array(self, name: str, position: int) -> npt.NDArray[Any]:
        """Return one sample's array in the array column ``name``, read-only; its checksum is verified.

        Its dtype is that of ``arrays[name]``, and its shape has as many sides as ``arrays[name].shape``.

        Raises:
            DatasetError: There is no such array column.
            CorruptRecordError: The bytes are not those that were written; names shard, record, key.
            OSError: The data file cannot be read.
        """
        if name not in self.arrays:
            known = ", ".join(self.arrays) or "none"
            raise DatasetError(
                f"the dataset has no array column {name!r}", path=self.path, hint=f"it has {known}"
            )
        row = int(self._to_rows([position])[0])
        data = self._read(position, row, range_columns(name), f"array {name!r}")
        try:
            shape = self.index.lists(shape_column(name)).take([row]).values
            if shape.min(initial=0) < 0:
                raise ValueError(f"{shape.tolist()}")
            return np.frombuffer(data, np.dtype(self.arrays[name].dtype).newbyteorder("<")).reshape(shape)
        except ValueError as error:
            raise self.error(position, f"the array {name!r} is not of its shape: {error}") from error

    def _read(self, position: int, row: int, byte_range: tuple[str, ...], what: str) -> bytes:
        """Return bytes of a sample, verified; ``byte_range`` names columns of offset, length and checksum."""
        shard, offset, length, crc = (int(self.index.column(name)[row]) for name in ("shard", *byte_range))
        if not 0 <= shard < len(self.data_files):
            raise StaleIndexError(f"the index names shard {shard} of {len(self.data_files)}", path=self.path)
        if (files := find_container(self.manifest.container).payload_files) is not None:
            return files.read(self.data_files[shard], offset, length)
        if not 0 <= offset <= offset + length <= self.data_sizes[shard]:
            raise self.error(position, "the index points outside the shard")
        with open_regular(self.data_files[shard]) as (descriptor, _):
            data = read_at(descriptor, offset, length)
        if len(data) != length or crc not in (NO_CHECKSUM, crc32c(data)):
            raise self.error(position, f"the {what}'s checksum does not match")
        return data

    def error(
        self,
        position: int,
        message: str,
        error_type: type[SampleError] = CorruptRecordError,
        hint: str | None = None,
    ) -> SampleError:
        """Return an error about one sample that names its shard, record and key."""
        row = int(self._to_rows([position])[0])
        shard = int(self.index.column("shard")[row])
        record, key = int(self.index.column("record")[row]), self.index.keys([row])[0]
        if not 0 <= shard < len(self.data_files):
            path, name = self.path, f"number {shard}"
        elif (files := find_container(self.manifest.container).payload_files) is not None:
            return error_type(message, path=files.path(self.data_files[shard], record), key=key, hint=hint)
        else:
            path, name = self.data_files[shard], self.manifest.shards[shard].name
        return error_type(message, path=path, shard=name, record=record, key=key, hint=hint)
