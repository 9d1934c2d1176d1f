"""Array columns of batches, read from the shards beside the images: stacked, padded or ragged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.errors import CorruptRecordError, SampleError
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.columns import ArrayColumn, range_columns, shape_column

from ..adapters import Adapter
from ..engines.base import list_files, open_shards
from ..execution.pipeline import ColumnSpec
from ..options import ArrayForm
from ..order.sampling import SampleSource

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]

_HINT = "stoker verify lists all bad samples."
_ANY_NUMBER = 1 << 62


@dataclass(frozen=True)
class ArrayConfig:
    """The array columns of a dataset, or of a batch, and their form."""

    columns: Mapping[str, ArrayColumn]  # Dtype and shape of the columns, by name
    form: ArrayForm = "ragged"  # Form of arrays whose shapes differ: "ragged" or "padded"

    def wanted(self, names: tuple[str, ...]) -> ArrayConfig:
        """The same, with only those columns that a batch holds, or whose shapes a batch holds."""
        wanted = {name: one for name, one in self.columns.items() if {name, shape_column(name)} & set(names)}
        return replace(self, columns=wanted)

    def with_shapes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the columns of a batch, and of the shapes that padding hides."""
        padded = (name for name in names if name in self.columns and not self.columns[name].is_fixed)
        shapes = (shape_column(name) for name in padded if self.form == "padded")
        return (*names, *(name for name in shapes if name not in names))

    def spec(self, name: str) -> ColumnSpec | None:
        """Dtype and shape of an array column, or of one of shapes; None for any other column."""
        for array, column in self.columns.items():
            if name == shape_column(array):
                return ColumnSpec(name, "int64", (len(column.shape),))
            if name == array:
                ragged = self.form == "ragged" and not column.is_fixed
                return ColumnSpec(name, column.dtype, column.shape, ragged=ragged)
        return None


@dataclass(frozen=True, eq=False)
class BatchArrays:
    """The arrays of the samples of a batch."""

    config: ArrayConfig  # The columns and their form
    arrays: Mapping[str, list[Array]]  # N arrays in each column, by name
    shapes: Mapping[str, Int64]  # (N, S) int64, the sides of these arrays

    def of_samples(self, chosen: Int64) -> BatchArrays:
        """The arrays of the samples at ``chosen``, (K,) indices in the batch."""
        arrays = {name: [some[i] for i in chosen.tolist()] for name, some in self.arrays.items()}
        return replace(self, arrays=arrays, shapes={name: some[chosen] for name, some in self.shapes.items()})

    def __contains__(self, name: str) -> bool:
        """Whether a column is one of arrays, or of their shapes."""
        return name in self.config.columns or name in map(shape_column, self.config.columns)

    def column(self, name: str, adapter: Adapter) -> Any:
        """One of these columns as the loader hands it out."""
        if name in self.config.columns:
            return self._arrays(name, self.config.columns[name], adapter)
        return adapter.column(next(self.shapes[one] for one in self.shapes if shape_column(one) == name))

    def _arrays(self, name: str, column: ArrayColumn, adapter: Adapter) -> Any:
        arrays, shapes = self.arrays[name], self.shapes[name]
        if not column.is_fixed and self.config.form == "ragged":
            if None in column.shape[1:]:
                return [adapter.column(one.copy()) for one in arrays]
            sides = tuple(side or 0 for side in column.shape[1:])
            none = np.zeros((0, *sides), column.dtype)
            return adapter.ragged(np.concatenate([none, *arrays]), shapes[:, 0])
        largest = shapes.max(axis=0).tolist() if len(shapes) else [0] * len(column.shape)
        sides = tuple(
            most if side is None else side for side, most in zip(column.shape, largest, strict=True)
        )
        stacked = (np.empty if column.is_fixed else np.zeros)((len(arrays), *sides), column.dtype)
        for padded, array in zip(stacked, arrays, strict=True):
            padded[tuple(map(slice, array.shape))] = array
        return adapter.column(stacked)


class ArrayReader:
    """Reads the arrays of batches from the shards, and checks them, one batch on each of its threads."""

    def __init__(
        self, dataset: SampleSource, config: ArrayConfig, *, num_threads: int, mapped: bool, verify: bool
    ) -> None:
        self._dataset = dataset
        self._config = config
        self._verify = verify
        self._shards = open_shards(
            dataset.data_files, dataset.data_sizes, mapped=mapped, listing=list_files(dataset.datasets)
        )
        self._pool = ThreadPoolExecutor(num_threads, "stoker-arrays")

    def start(self, positions: Int64) -> Callable[[], tuple[BatchArrays, dict[int, SampleError]]]:
        """Start to read the arrays of a batch on a thread; returns a function that waits for them."""
        return self._pool.submit(self.read, positions).result

    def read(self, positions: Int64) -> tuple[BatchArrays, dict[int, SampleError]]:
        """The arrays of samples, and the errors of those that are damaged, by index in the batch."""
        # positions (N,) int64
        errors: dict[int, SampleError] = {}
        arrays, shapes = {}, {}
        for name in self._config.columns:
            arrays[name], shapes[name] = self._read(name, positions, errors)
        return BatchArrays(self._config, arrays, shapes), errors

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._shards.close()

    def _read(self, name: str, positions: Int64, errors: dict[int, SampleError]) -> tuple[list[Array], Int64]:
        column = self._config.columns[name]
        sides = len(column.shape)
        shapes = self._dataset.lists(shape_column(name), positions).values.reshape(-1, sides).copy()
        dtype = np.dtype(column.dtype).newbyteorder("<")
        payloads, bad = self._bytes(name, positions)
        messages = {i: reason for i, (_, reason) in bad.items()}
        lengths = np.array([len(data) for data in payloads], np.int64)
        wrong = (shapes < 0).any(axis=1) | (shapes.prod(axis=1) * dtype.itemsize != lengths)
        for i in np.flatnonzero(wrong).tolist():
            messages.setdefault(i, f"{lengths[i]} bytes are not of the shape {shapes[i].tolist()}")
        for i, message in messages.items():
            text = f"the array {name!r} cannot be read: {message or 'its checksum does not match'}"
            errors.setdefault(i, self._dataset.error(int(positions[i]), text, CorruptRecordError, _HINT))
            shapes[i] = [side or 0 for side in column.shape]
            payloads[i] = np.zeros(int(shapes[i].prod()) * dtype.itemsize, np.uint8)
        pairs = zip(payloads, map(tuple, shapes.tolist()), strict=True)
        return [data.view(dtype).reshape(shape) for data, shape in pairs], shapes

    def _bytes(
        self, name: str, positions: Int64
    ) -> tuple[list[npt.NDArray[np.uint8]], dict[int, tuple[int, str]]]:
        """The bytes of N arrays, (length,) uint8 each, and the damaged ones by index in the batch."""
        where = dict(zip(("offset", "length", "crc"), range_columns(name), strict=True), shard="shard")
        samples = {column: self._dataset.values(index, positions) for column, index in where.items()}
        n = len(positions)
        # C++ only compares bytes of an unknown codec with their checksum.
        samples["codec"] = np.full(n, Codec.OTHER, np.uint8)
        samples["orientation"] = np.ones(n, np.uint8)
        samples["height"] = samples["width"] = np.ones(n, np.int32)
        columns = {
            column.name: np.asarray(samples[column.name], column.dtype, order="C")
            for column in _native.SAMPLE_COLUMNS
            if not column.optional
        }
        data, bad, *_ = _native.payloads(self._shards, columns, n, _ANY_NUMBER, self._verify)
        return data, bad
