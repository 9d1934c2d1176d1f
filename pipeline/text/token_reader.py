"""The reader of token ids, which reads the payloads of a batch from shards and checks them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._native import read_tokens
from stoker.arguments import list_of_names
from stoker.bucketing import Ragged
from stoker.bucketing.batchify.ragged import Padded
from stoker.bucketing.packing.plan import TooLong
from stoker.errors import ConfigError, CorruptRecordError, StaleIndexError
from stoker.formats.text.encoder import length_column, trained_column
from stoker.formats.tokenization.special_tokens import NO_SPECIAL_TOKENS

from ..engines.shard_files import open_shards
from ..order.sample_source import SampleSource
from .masking import special_tokens_of
from .planning.epoch import TokenSlices
from .reading import PayloadLocations, ReadAhead, trained_tokens

Int64 = npt.NDArray[np.int64]

_WHERE = ("shard", "offset", "length", "crc")
_HINT = "stoker verify lists all bad samples; convert the source again."


class TokenReader:
    """Reads sequences of a dataset of text."""

    def __init__(
        self,
        dataset: SampleSource,
        fields: Sequence[str] | None,
        dtype: str,
        too_long: TooLong = "error",
        *,
        verify: bool,
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
        self.fields = tuple(stored) if fields is None else list_of_names("fields", fields)
        if not self.fields or len(set(self.fields)) < len(self.fields) or not set(self.fields) <= set(stored):
            raise ConfigError(
                f"fields must be of {', '.join(stored)}, each once, found {self.fields}", path=dataset.path
            )
        self.pad_id = int(options.get("pad_id") or 0)
        self.dtype = np.dtype(dtype)
        self._dataset = dataset
        self._verify = verify
        self._read_whole = np.zeros(len(dataset) if too_long == "split" else 0, np.bool_)
        self.special_tokens = special_tokens_of(dataset) if too_long == "truncate" else NO_SPECIAL_TOKENS
        self._stored = np.dtype(str(options["dtype"])).newbyteorder("<")
        self._chosen = [stored.index(field) for field in self.fields]
        self._columns = [length_column(field) for field in stored]
        # The columns of a whole dataset are views of its index, which take no memory.
        is_whole = dataset.fingerprint == dataset.manifest.fingerprint
        self._views = {name: dataset.column(name) for name in (*_WHERE, *self._columns) if is_whole}
        self._shards = open_shards([str(file) for file in dataset.data_files], dataset.data_sizes)
        self._read_ahead = ReadAhead(dataset.data_sizes)

    @property
    def lengths(self) -> Int64:
        """(N, D) int64, tokens of every sample in each field that is read."""
        columns = [self._dataset.column(self._columns[field]) for field in self._chosen]
        return np.stack(columns, axis=1, dtype=np.int64)

    def locate(self, positions: Int64) -> PayloadLocations:
        """Return the byte ranges of the payloads of samples."""
        shard, offset, length, crc = (self._values(name, positions) for name in _WHERE)
        tokens = np.empty((len(positions), len(self._columns)), np.int64)
        for field, name in enumerate(self._columns):
            tokens[:, field] = self._values(name, positions)
        return PayloadLocations(positions, shard, offset, length, crc, tokens)

    def _values(self, name: str, positions: Int64) -> npt.NDArray[Any]:
        view = self._views.get(name)
        return self._dataset.values(name, positions) if view is None else view[positions]

    def will_need(self, slices: TokenSlices, locations: PayloadLocations) -> None:
        """Ask the kernel to read these payloads ahead, or the slices of them that will be read."""
        shard, offset, length = locations.shard, locations.offset, locations.length
        if self.reads_slices:
            begin, end = self.byte_slices(slices, locations).T
            offset, length = offset + begin, end - begin
        else:
            shard, offset, length = self._read_ahead.needed(shard, offset, length)
        if len(shard):
            self._shards.will_need(shard, offset, length)

    @property
    def reads_slices(self) -> bool:
        """Whether a payload is read in slices after it was read whole once."""
        return len(self._read_whole) > 0

    def byte_slices(
        self, slices: TokenSlices, locations: PayloadLocations, earlier: npt.NDArray[np.bool_] | None = None
    ) -> Int64:
        """(P, 2) int64: the first byte of each payload that will be read, and the byte after the last."""
        # earlier (N,) bool
        first, end = self._bounds(slices, locations)
        bounds = np.stack((first.min(axis=1), end.max(axis=1)), axis=1)
        byte_bounds: Int64 = bounds * self._stored.itemsize
        whole = ~self._read_whole[locations.positions]
        if earlier is not None:
            whole &= ~earlier[locations.positions]
        byte_bounds[whole, 0] = 0
        byte_bounds[whole, 1] = locations.length[whole]
        return byte_bounds

    def read(self, slices: TokenSlices, locations: PayloadLocations) -> list[Ragged]:
        """Read the sequences of a batch, P in each field."""
        offsets = _offsets(slices)
        ids = [np.empty(total, self.dtype) for total in offsets[:, -1].tolist()]
        self._read(locations, self._edges(slices, locations), ids)
        return list(map(Ragged, ids, offsets, self._trained(slices, locations, offsets)))

    def read_padded(
        self, slices: TokenSlices, locations: PayloadLocations, shapes: Sequence[Sequence[int]], fill: int
    ) -> list[list[Padded]]:
        """Read the sequences of batches as padded rows, for each batch those of each field."""
        ids = [[np.empty((rows, width), self.dtype) for width in widths] for rows, *widths in shapes]
        self._read(locations, self._edges(slices, locations), list(chain.from_iterable(ids)), fill)
        offsets = _offsets(slices)
        trained = self._trained(slices, locations, offsets)
        padded, end = [], 0
        for batch in ids:
            first, end = end, end + len(batch[0])
            pairs = zip(trained, offsets, strict=True)
            flags = (
                field_flags if field_flags is None else field_flags[of_field[first] : of_field[end]]
                for field_flags, of_field in pairs
            )
            padded.append(list(map(Padded, batch, slices.lengths[first:end].T, flags)))
        return padded

    def _edges(self, slices: TokenSlices, locations: PayloadLocations) -> Int64:
        """(P, D, 4) int64, the bytes of each slice in its payload, as ``read_tokens`` takes them."""
        first, end = self._bounds(slices, locations)
        edges = np.empty((*first.shape, 4), np.int64)
        edges[:, :, 0] = first
        edges[:, :, 1] = edges[:, :, 2] = edges[:, :, 3] = end
        if kept := self.special_tokens.closing:
            whole = first - slices.begins[:, None] + locations.tokens[:, self._chosen]
            closing = np.where(end < whole, kept, 0)
            edges[:, :, 1] -= closing
            edges[:, :, 2] = whole - closing
            edges[:, :, 3] = whole
        edges *= self._stored.itemsize
        return edges

    def _trained(
        self, slices: TokenSlices, locations: PayloadLocations, offsets: Int64
    ) -> list[npt.NDArray[np.bool_] | None]:
        """(T,) bool for each field, the tokens of P slices that a model is trained on; None if all are."""
        trained: list[npt.NDArray[np.bool_] | None] = []
        for name, column, bounds in zip(map(trained_column, self.fields), self._chosen, offsets, strict=True):
            if name not in self._dataset.types:
                trained.append(None)
                continue
            runs, tokens = self._dataset.lists(name, slices.positions), locations.tokens[:, column]
            closing = np.where(slices.begins + np.diff(bounds) < tokens, self.special_tokens.closing, 0)
            trained.append(trained_tokens(runs, slices.begins, tokens, closing, bounds=bounds))
        return trained

    def close(self) -> None:
        """Close the data files."""
        self._shards.close()

    def _bounds(self, slices: TokenSlices, locations: PayloadLocations) -> tuple[Int64, Int64]:
        """(P, D) int64 each: the first token of each slice in its payload, and the end of the slice."""
        tokens = locations.tokens
        begins = (np.cumsum(tokens, axis=1) - tokens)[:, self._chosen] + slices.begins[:, None]
        return begins, begins + slices.lengths

    def _read(
        self, locations: PayloadLocations, edges: Int64, ids: list[npt.NDArray[Any]], fill: int = 0
    ) -> None:
        """Check payloads, and read their slices into the arrays of the fields, batch after batch."""
        positions = locations.positions
        checked = np.full(len(positions), self._verify)
        if self.reads_slices:
            _, first = np.unique(positions, return_index=True)  # of several slices of a payload
            checked[np.delete(np.arange(len(positions)), first)] = False
            checked &= ~self._read_whole[positions]
        bad = read_tokens(
            self._shards,
            *locations[1:4],
            locations.tokens.sum(axis=1) * self._stored.itemsize,
            locations.crc,
            checked,
            edges,
            self._stored.itemsize,
            ids,
            fill,
        )
        if bad is not None:
            raise self._error(int(positions[bad[0]]), bad[1])
        if self.reads_slices:
            self._read_whole[positions] = True

    def _error(self, position: int, message: str) -> Exception:
        return self._dataset.error(position, message, CorruptRecordError, _HINT)


def _offsets(slices: TokenSlices) -> Int64:
    """(D, P + 1) int64, the start of each slice among the tokens of each field, and their number."""
    offsets = np.zeros((slices.lengths.shape[1], len(slices.lengths) + 1), np.int64)
    np.cumsum(slices.lengths.T, axis=1, out=offsets[:, 1:])
    return offsets
