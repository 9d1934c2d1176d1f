"""The reader of token ids: it reads the payloads of a batch from shards, and checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stoker._native import crc32c
from stoker.bucketing import Ragged
from stoker.errors import ConfigError, CorruptRecordError, StaleIndexError
from stoker.formats.text.encoder import length_column

from ..engines.shard_files import open_shards

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from ..order.sample_source import SampleSource
    from .epoch import TokenSlices

__all__ = ["PayloadLocations", "TokenReader"]

_WHERE = ("shard", "offset", "length", "crc")
_HINT = "stoker verify lists all bad samples; convert the source again."


class PayloadLocations(NamedTuple):
    """Where the payloads of N samples lie, as the index says.

    Attributes:
        positions: (N,) int64, positions of the samples in the dataset.
        shard: (N,) int32, number of the data file.
        offset: (N,) int64, bytes from the beginning of the file.
        length: (N,) int64, bytes.
        crc: (N,) uint32, CRC32C of the payload.
        tokens: (N, F) int64, tokens in each of F stored fields.
    """

    positions: npt.NDArray[np.int64]
    shard: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    crc: npt.NDArray[np.uint32]
    tokens: npt.NDArray[np.int64]


class TokenReader:
    """Reads sequences of a dataset of text.

    Args:
        dataset: Dataset that :func:`stoker.convert_text` made, a selection of one, or a mixture.
        fields: Names of the fields to read; None for all.
        dtype: Dtype of the token ids that are handed out.
        verify: Whether every payload is compared with its checksum.

    Attributes:
        fields: Names of the D fields that are read.
        pad_id: Token id of padding.
        dtype: As given.

    Raises:
        ConfigError: There is no such field.
        StaleIndexError: The index lacks what the reader needs, or a data file has another size.
        DatasetError: A data file cannot be opened.
    """

    def __init__(
        self, dataset: SampleSource, fields: Sequence[str] | None, dtype: str, *, verify: bool
    ) -> None:
        options = dataset.manifest.options
        stored = str(options.get("fields", "")).split(",")
        if any(length_column(field) not in dataset.types for field in stored):
            raise StaleIndexError(
                "the index lacks the lengths of the text's fields",
                path=dataset.path,
                hint="Convert the source again.",
            )
        if options.get("dtype") not in ("uint16", "int32"):
            raise StaleIndexError(
                f"token ids must be uint16 or int32, found {options.get('dtype')!r}",
                path=dataset.path,
                hint="Convert the source again.",
            )
        self.fields = tuple(fields) if fields is not None else tuple(stored)
        if not self.fields or len(set(self.fields)) < len(self.fields) or not set(self.fields) <= set(stored):
            raise ConfigError(
                f"fields must be of {', '.join(stored)}, each once, found {self.fields}", path=dataset.path
            )
        self.pad_id = int(options.get("pad_id") or 0)
        self.dtype = np.dtype(dtype)
        self._dataset = dataset
        self._verify = verify
        self._stored = np.dtype(str(options["dtype"])).newbyteorder("<")
        self._chosen = [stored.index(field) for field in self.fields]
        self._columns = [length_column(field) for field in stored]
        self._shards = open_shards([str(file) for file in dataset.data_files], dataset.data_sizes)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(N, D) int64, tokens of every sample in each field that is read."""
        columns = [self._dataset.column(self._columns[field]) for field in self._chosen]
        return np.stack(columns, axis=1, dtype=np.int64)

    def locate(self, positions: npt.NDArray[np.int64]) -> PayloadLocations:
        """Where the payloads of samples lie."""
        shard, offset, length, crc = (self._dataset.values(name, positions) for name in _WHERE)
        tokens = [self._dataset.values(name, positions) for name in self._columns]
        return PayloadLocations(
            positions, shard, offset, length, crc, np.stack(tokens, axis=1, dtype=np.int64)
        )

    def will_need(self, locations: PayloadLocations) -> None:
        """Ask the kernel to read these payloads ahead."""
        self._shards.will_need(locations.shard, locations.offset, locations.length)

    def read(self, slices: TokenSlices, locations: PayloadLocations) -> list[Ragged]:
        """Read the sequences of a batch, P in each field.

        Args:
            slices: The P slices of samples.
            locations: Where the payloads of these samples lie, (P,).

        Raises:
            CorruptRecordError: A payload cannot be read, or is not what was written; names the sample.
        """
        stored = locations.tokens
        values = np.frombuffer(b"".join(self._payloads(locations)), self._stored).astype(self.dtype)
        bounds = np.concatenate(([0], np.cumsum(stored)))
        if len(self._columns) == 1 and np.array_equal(stored, slices.lengths):
            return [Ragged(values, bounds)]
        starts = bounds[:-1].reshape(stored.shape)
        return [
            _gather(values, starts[:, field] + slices.begins, slices.lengths[:, column])
            for column, field in enumerate(self._chosen)
        ]

    def close(self) -> None:
        """Close the data files."""
        self._shards.close()

    def _payloads(self, locations: PayloadLocations) -> Iterator[memoryview]:
        sizes = locations.tokens.sum(axis=1) * self._stored.itemsize
        columns = (column.tolist() for column in (*locations[:5], sizes))
        for position, shard, offset, length, crc, size in zip(*columns, strict=True):
            try:
                view = self._shards.view(shard, offset, length)
            except (ValueError, OSError) as error:
                raise self._error(position, f"the payload cannot be read: {error}") from error
            if self._verify and crc32c(view) != crc:
                raise self._error(position, "the payload does not match its checksum")
            if length != size:
                raise self._error(position, f"the payload has {length} bytes, and its tokens take {size}")
            yield view

    def _error(self, position: int, message: str) -> Exception:
        return self._dataset.error(position, message, CorruptRecordError, _HINT)


def _gather(
    values: npt.NDArray[Any], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Ragged:
    """Slices of ``values``, one after the other."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return Ragged(values[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])], offsets)
