"""The reader of token ids, which reads the payloads of a batch from shards and checks them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker._native import read_tokens
from stoker.arguments import list_of_names
from stoker.bucketing import Ragged
from stoker.bucketing.layout import Padded
from stoker.bucketing.packing import TooLong
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, StaleIndexError
from stoker.formats.dataset.columns import ListColumn
from stoker.formats.files import is_of_machine, storage_error
from stoker.formats.token_columns import length_column, trained_column
from stoker.formats.tokenization import (
    NO_SPECIAL_TOKENS,
    special_tokens_of,
)

from ..engines.base import AGAIN, open_shards
from ..order.sampling import SampleSource
from .planner import TokenSlices

Int64 = npt.NDArray[np.int64]

_PART = 128 << 10  # bytes; the kernel reads as much for one request anyway
_SHARE = 8  # of the memory: smaller datasets stay in the page cache
_WHERE = ("shard", "offset", "length", "crc")
_HINT = "stoker verify lists all bad samples; convert the source again."


class PayloadLocations(NamedTuple):
    """The byte ranges of the payloads of N samples in the data files, from the index."""

    positions: Int64  # (N,), positions of the samples in the dataset
    shard: npt.NDArray[np.int32]  # (N,), number of the data file
    offset: Int64  # (N,), bytes from the beginning of the file
    length: Int64  # (N,), bytes
    crc: npt.NDArray[np.uint32]  # (N,), CRC32C of the payload
    tokens: Int64  # (N, F), tokens in each of F stored fields

    def part(self, each: slice) -> PayloadLocations:
        """The byte ranges of some of the payloads."""
        return PayloadLocations._make(column[each] for column in self)


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
        keep_end: bool = True,
    ) -> None:
        options = dataset.manifest.options
        stored, self.fields = _read_fields(dataset, fields)
        problem = None
        if any(length_column(field) not in dataset.types for field in stored):
            problem = "the index lacks the lengths of the text's fields"
        elif options.get("dtype") not in ("uint16", "int32"):
            problem = f"token ids must be uint16 or int32, found {options.get('dtype')!r}"
        if problem is not None:
            raise StaleIndexError(problem, path=dataset.path, hint="Convert the source again.")
        self.pad_id = int(options.get("pad_id") or 0)
        self.dtype = np.dtype(dtype)
        self._dataset = dataset
        self._verify = verify
        self._read_whole = np.zeros(len(dataset) if too_long == "split" else 0, np.bool_)
        keeps_end = too_long == "truncate" and keep_end
        around = special_tokens_of(dataset.datasets) if keeps_end else [NO_SPECIAL_TOKENS]
        self.special_tokens = max(map(sum, around))  # tokens that the shortest sequence must have room for
        self._closing = np.array([special.closing for special in around], np.int64)
        self._stored = np.dtype(str(options["dtype"])).newbyteorder("<")
        self._chosen = [stored.index(field) for field in self.fields]
        self._columns = [length_column(field) for field in stored]
        # The columns of a whole dataset are views of its index, which take no memory.
        is_whole = dataset.fingerprint == dataset.manifest.fingerprint
        self._views = {name: dataset.column(name) for name in (*_WHERE, *self._columns) if is_whole}
        self._shards = open_shards(dataset.data_files, dataset.data_sizes, listing=False)
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
        """Read the sequences of batches as padded rows: a list of fields for each batch."""
        ids = [[np.empty((rows, width), self.dtype) for width in widths] for rows, *widths in shapes]
        self._read(locations, self._edges(slices, locations), list(chain.from_iterable(ids)), fill)
        offsets = _offsets(slices)
        trained = self._trained(slices, locations, offsets)
        padded, end = [], 0
        for batch in ids:
            first, end = end, end + len(batch[0])
            flags = (
                field_flags if field_flags is None else field_flags[starts[first] : starts[end]]
                for field_flags, starts in zip(trained, offsets, strict=True)
            )
            padded.append(list(map(Padded, batch, slices.lengths[first:end].T, flags)))
        return padded

    def _edges(self, slices: TokenSlices, locations: PayloadLocations) -> Int64:
        """(P, D, 4) int64, the bytes of each slice in its payload, as ``read_tokens`` takes them."""
        first, end = self._bounds(slices, locations)
        edges = np.empty((*first.shape, 4), np.int64)
        edges[:, :, 0] = first
        edges[:, :, 1] = edges[:, :, 2] = edges[:, :, 3] = end
        if self._closing.any():
            whole = first - slices.begins[:, None] + locations.tokens[:, self._chosen]
            closing = np.where(end < whole, self._closing_of(slices.positions)[:, None], 0)
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
            closing = np.where(
                slices.begins + np.diff(bounds) < tokens, self._closing_of(slices.positions), 0
            )
            trained.append(trained_tokens(runs, slices.begins, tokens, closing, bounds=bounds))
        return trained

    def _closing_of(self, positions: Int64) -> Int64:
        """(P,) int64, special tokens that end each sequence, and that a cut keeps."""
        several = len(self._closing) > 1
        numbers = self._dataset.values("dataset", positions) if several else positions * 0
        closing: Int64 = self._closing[numbers]
        return closing

    def trained_within(self, kept: Int64) -> npt.NDArray[np.bool_] | None:
        """(N,) bool, the samples with a trained token before the end of a cut; None for all.

        Args:
            kept: (N, D), tokens that are read of each sample in each field.
        """
        names = [trained_column(field) for field in self.fields]
        lengths = self.lengths
        cut = np.flatnonzero((kept < lengths).any(axis=1))
        if not len(cut) or not self._dataset.types.keys() >= set(names):
            return None
        good = np.zeros(len(cut), np.bool_)
        for name, most, tokens in zip(names, kept[cut].T, lengths[cut].T, strict=True):
            runs = self._dataset.lists(name, cut)
            before = np.where(most < tokens, most - self._closing_of(cut), most)
            first = np.append(runs.values, 0)[np.cumsum(runs.counts) - runs.counts]
            good |= (runs.counts > 0) & (first < before)
        keeps = np.ones(len(kept), np.bool_)
        keeps[cut] = good
        return None if good.all() else keeps

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
        if bad is not None and is_of_machine(bad[1]):
            raise storage_error(bad[1], self._dataset.path, hint=AGAIN)
        if bad is not None:
            raise self._dataset.error(int(positions[bad[0]]), bad[1], CorruptRecordError, _HINT)
        if self.reads_slices:
            self._read_whole[positions] = True


def _offsets(slices: TokenSlices) -> Int64:
    """(D, P + 1) int64, the start of each slice among the tokens of each field, and their number."""
    offsets = np.zeros((slices.lengths.shape[1], len(slices.lengths) + 1), np.int64)
    np.cumsum(slices.lengths.T, axis=1, out=offsets[:, 1:])
    return offsets


def trained_tokens(
    runs: ListColumn, begins: Int64, tokens: Int64, closing: Int64, *, bounds: Int64
) -> npt.NDArray[np.bool_]:
    """(T,) bool, the tokens of P slices that a model is trained on."""
    # begins, tokens, closing (P,), bounds (P + 1,)
    which = np.repeat(np.arange(len(runs)), runs.counts // 2)
    first, end = runs.values.astype(np.int64).reshape(-1, 2).T
    lengths = np.diff(bounds)
    steps = np.zeros(int(bounds[-1]) + 1, np.int64)
    # The tokens of a slice are those from its beginning, and the closing tokens of the sequence.
    for origin, low, high in (
        (begins, np.zeros_like(lengths), lengths - closing),
        (tokens - lengths, lengths - closing, lengths),
    ):
        within = low[which], high[which]
        begin = np.clip(first - origin[which], *within) + bounds[which]
        stop = np.clip(end - origin[which], *within) + bounds[which]
        np.add.at(steps, begin, 1)
        np.add.at(steps, stop, -1)
    return np.asarray(np.cumsum(steps[:-1]) > 0)


def text_lengths(dataset: SampleSource, fields: Sequence[str] | None = None) -> Int64:
    """Return the tokens of every sample, (N,), or (N, D) for D fields, from the index alone."""
    if dataset.manifest.sample_type != "text":
        raise DatasetError(
            f"the dataset holds {dataset.manifest.sample_type}s, which have no lengths", path=dataset.path
        )
    _, chosen = _read_fields(dataset, fields)
    columns = [dataset.column(length_column(field)).astype(np.int64) for field in chosen]
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _read_fields(
    dataset: SampleSource, fields: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields that a dataset stores, and those that are read: ``fields``, or all."""
    stored = tuple(str(dataset.manifest.options.get("fields", "")).split(","))
    chosen = stored if fields is None else list_of_names("fields", fields)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(stored):
        raise ConfigError(
            f"fields must be of {', '.join(stored)}, each once, found {', '.join(chosen)}", path=dataset.path
        )
    return stored, chosen


class ReadAhead:
    """The parts of data files that the kernel has not been asked to read ahead.

    A request costs a microsecond or more, even for bytes in memory. A dataset that takes a small share of the
    memory needs one request for each part. A larger one needs a request for each payload, because the kernel
    may have dropped it.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        parts = [size // _PART + 1 for size in sizes]
        self._sizes = np.array(sizes, np.int64)
        self._first = np.concatenate(([0], np.cumsum(parts, dtype=np.int64)))[:-1]
        stays = sum(sizes) * _SHARE <= _memory()
        self._asked = np.zeros(sum(parts) if stays else 0, np.bool_)

    def needed(
        self, shard: npt.NDArray[np.int32], offset: Int64, length: Int64
    ) -> tuple[npt.NDArray[np.int32], Int64, Int64]:
        """Return the ranges to request: file, first byte and bytes of each."""
        # all (P,)
        if not len(self._asked):
            return shard, offset, length
        first, last = offset // _PART, (offset + length) // _PART
        base = self._first[shard]
        new = ~(self._asked[base + first] & self._asked[base + last]) | (last - first > 1)
        self._asked[(base + first)[new]] = True
        self._asked[(base + last)[new]] = True
        shard, begin = shard[new], first[new] * _PART
        end = np.minimum((last[new] + 1) * _PART, self._sizes[shard])
        return shard, begin, end - begin


def _memory() -> int:
    """Bytes of memory; 0 if the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0
