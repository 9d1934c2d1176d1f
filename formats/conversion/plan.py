"""The plan of a conversion: the split, the shard and the record of every sample.

A plan is a pure function of a listing and options: nothing is read and nothing is written. So every shard of
a plan can be made anywhere, at any time, and again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from stoker import version
from stoker.errors import ConfigError, StokerError
from stoker.random import philox_permutation

from ..dataset.columns import ListColumn
from ..sources.classes import hash_names
from ..sources.listing import Listing, Skip
from .options import ShardOptions


class EncodedRecord(NamedTuple):
    """A sample as it is stored."""

    key: str  # Its name in the source
    prefix: bytes  # Bytes of the record before the payload
    payload: bytes  # The bytes that the index locates and whose checksum it has
    suffix: bytes  # Bytes of the record after the payload
    attributes: tuple[int, ...]  # One integer for each of :attr:`Encoder.attributes`
    skipped: tuple[Skip, ...] = ()  # Parts of the sample that were left out
    details: Any = None  # Data that :meth:`Encoder.columns` needs later


Rows = npt.NDArray[np.int64]


class IndexColumns(Protocol):
    """The index columns of samples of one type, and the further files of their datasets."""

    @property
    def sample_type(self) -> str: ...  # as manifests name it: image or text

    @property
    def attributes(self) -> Mapping[str, type[np.integer[Any]]]: ...  # columns that encoding a sample gives

    @property
    def files(self) -> Mapping[str, bytes]: ...  # contents of further files of every dataset, by name

    @property
    def arrays(self) -> Mapping[str, str]: ...  # NumPy's names of the dtypes of array columns, by name

    def columns(self, rows: Rows, details: Sequence[Any], ends: Rows) -> dict[str, Any]:
        """Further index columns of the M records that were written, as Arrow arrays."""
        # rows (M,) int64, ends (M,) int64, where the payload of each record ends


class Encoder(IndexColumns, Protocol):
    """Reads samples of a source and encodes them; used by several threads at once."""

    @property
    def chunk_samples(self) -> int: ...  # largest number of samples in one task of the pool

    def encode(self, rows: Rows) -> Iterator[EncodedRecord | Skip]:
        """Encode the samples at ``rows`` of the listing; a Skip stands for a sample that is left out."""

    def strict_error(self, skip: Skip) -> StokerError:
        """The error of a strict conversion for a sample that would be left out."""


@dataclass(frozen=True)
class PlannedShard:
    """One shard of a plan."""

    split: str  # Name of its dataset; empty where there are no splits
    number_in_split: int  # Number of the shard in that dataset, from 0
    rows: Rows  # (N,) int64, rows of the listing in the order of the records


@dataclass(frozen=True)
class DatasetPlan:
    """All that publishing finished shards as datasets needs."""

    options: ShardOptions  # The options
    listing: Listing  # The samples, their classes, and the skips of the listing
    encoder: IndexColumns  # Makes the index columns of the samples
    shards: tuple[PlannedShard, ...]  # The shards, by split and by number in it
    fingerprint: str  # Name of the plan, by which an unfinished conversion is recognised

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the datasets, which the source or the options give."""
        return self.listing.splits or self.options.splits


@dataclass(frozen=True)
class ConversionPlan(DatasetPlan):
    """The plan of a conversion, which is all that making any of its shards needs."""

    encoder: Encoder  # Makes records of the samples


def plan_conversion(listing: Listing, options: ShardOptions, encoder: Encoder) -> ConversionPlan:
    """Plan a conversion of samples; ``encoder`` makes their records."""
    sizes = options.record_bytes(listing.sizes)
    if listing.masks is not None:
        sizes = sizes + listing.masks.sizes
    shards = []
    for split, rows in split_rows(listing, options).items():
        if not len(rows):
            if listing.splits:
                raise ConfigError(f"{split} has no image", hint="Remove it from the source's splits.")
            raise ConfigError(
                f"{split} would get none of {len(listing)} samples",
                hint="A share is taken of each class, whose last sample stays in train: give a larger "
                "share, or none.",
            )
        ordered = shuffled(rows, options.seed)
        is_whole = len(rows) == len(listing) and options.seed is None  # then nothing is copied
        for number, part in enumerate(shard_rows(sizes if is_whole else sizes[ordered], options)):
            shards.append(PlannedShard(split, number, ordered[part]))
    # Another version of Stoker, other options, or a file of the source with another name, size or time of
    # change make another conversion; the folder of the source, threads and the engine do not.
    identity = json.dumps([version.__version__, options.to_manifest(), listing.fingerprint()])
    fingerprint = hashlib.sha256(identity.encode()).hexdigest()
    return ConversionPlan(options, listing, encoder, tuple(shards), fingerprint)


def split_rows(listing: Listing, options: ShardOptions) -> dict[str, Rows]:
    """Rows of the listing by split, in ascending order: by the splits of the source, or by shares."""
    # In each class, the samples with the lowest hashes of their keys go to ``val`` and those with the highest
    # to ``test``. So the choice depends on no seed, and when files are added or removed, only samples near
    # the limits change their split. At least one sample of a class stays in ``train``.
    everything = np.arange(len(listing), dtype=np.int64)
    if listing.split is not None:
        return {name: everything[listing.split == number] for number, name in enumerate(listing.splits)}
    if options.splits == ("",):
        return {"": everything}
    classes = _strata(listing)
    order = np.lexsort((hash_names(listing.names()), classes))
    counts = np.bincount(classes)
    ties = hash_names([*listing.classes, *map(str, range(len(counts)))][: len(counts)])
    val = np.minimum(apportion_split(counts, options.val, ties), np.maximum(counts - 1, 0))
    test = np.minimum(apportion_split(counts, options.test, ties), np.maximum(counts - 1 - val, 0))
    rank = np.empty(len(listing), np.int64)
    rank[order] = everything - (np.cumsum(counts) - counts)[classes[order]]
    in_val = rank < val[classes]
    in_test = rank >= (counts - test)[classes]
    parts = {"train": ~in_val & ~in_test, "val": in_val, "test": in_test}
    return {split: np.flatnonzero(parts[split]).astype(np.int64) for split in options.splits}


def _strata(listing: Listing) -> Rows:
    """The stratum of each sample, (N,) int64: shares are taken of each stratum."""
    # It is the label, or the first of several labels; samples without a label are one stratum.
    if listing.labels is None:
        return np.zeros(len(listing), np.int64)
    if listing.multi_label:
        lists = ListColumn.from_arrow(listing.labels)
        labelled = lists.counts > 0
        none = lists.values.max(initial=-1) + 1
        numbers = np.full(len(listing), none, np.int64)
        numbers[labelled] = lists.values[lists.starts[:-1][labelled]]
    else:
        numbers = np.asarray(listing.labels.to_numpy(zero_copy_only=False), np.int64)
    if listing.classes:
        return numbers
    return np.unique(numbers, return_inverse=True)[1].reshape(-1).astype(np.int64)


def apportion_split(counts: Rows, share: Fraction, ties: npt.NDArray[np.uint64]) -> Rows:
    """Apportion ``share`` of all samples to the classes by the method of the largest remainders."""
    # Every class gets its exact share rounded down or up; the total is the exact share of all samples,
    # rounded to the nearest integer.
    # counts (C,), ties (C,)
    numerator, denominator = share.numerator, share.denominator
    # Python's integers, because the denominator of a share may have any size.
    exact = [int(count) * numerator for count in counts]
    whole = np.array([value // denominator for value in exact], np.int64)
    total = (2 * sum(exact) + denominator) // (2 * denominator)
    by_remainder = sorted(range(len(exact)), key=lambda i: (-(exact[i] % denominator), int(ties[i])))
    whole[by_remainder[: total - int(whole.sum())]] += 1
    return whole


def shuffled(rows: Rows, seed: int | None) -> Rows:
    """A permutation of the rows that depends on the seed and their number alone."""
    return rows if seed is None else rows[philox_permutation(len(rows), seed)]


def shard_rows(sizes: Rows, options: ShardOptions) -> list[slice]:
    """Divide consecutive samples of ``sizes`` bytes, (N,), N at least 1, into shards that are not empty."""
    n = len(sizes)
    if options.shard_records:
        starts = np.arange(0, n, options.shard_records)
    elif options.shards:
        number = min(options.shards, n)
        starts = np.arange(number, dtype=np.int64) * n // number
    else:
        ends = np.cumsum(sizes)
        number = max(1, -(-int(ends[-1]) // options.shard_bytes), -(-n // options.most_records))
        # Shards of equal size, without a small last one, because readers divide them evenly.
        limits = np.arange(1, number, dtype=np.int64) * (int(ends[-1]) // number)
        # A shard begins with the first sample that begins at or after a limit; the shard before ends there.
        starts = np.unique(np.concatenate([[0], np.searchsorted(ends[:-1], limits) + 1]).clip(max=n - 1))
    return [slice(int(a), int(b)) for a, b in zip(starts, [*starts[1:], n], strict=True)]
