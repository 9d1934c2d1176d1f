"""Positions of samples in a dataset: checks, selections, and splits by a hash of the keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from stoker.errors import ConfigError

from ..index import Index
from .select import matching


def checked_positions(positions: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    """Return positions as int64."""
    at = np.asarray(positions)
    if at.size and at.dtype.kind not in "iu":
        raise ConfigError(f"positions must be integers, not {at.dtype}")
    at = at.astype(np.int64, copy=False)
    if at.size and not 0 <= at.min() <= at.max() < n:
        raise IndexError(f"positions go from 0 to {n - 1}, found {at.min()} to {at.max()}")
    return at


def selected_positions(
    index: Index,
    rows: npt.NDArray[np.int64],
    which: npt.ArrayLike | str | pc.Expression,
    objects: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[np.int64]:
    """Return the positions that ``which`` of :meth:`Dataset.select` means, among (N,) int64 rows of an index.

    ``objects``, (M,) bool, has the objects of the index that a condition counts; None for all.
    """
    at = np.asarray(which)
    if isinstance(which, str) or at.dtype == object:
        at = matching(index, which, objects)[rows]
    if at.dtype == bool:
        if at.shape != rows.shape:
            raise ConfigError(f"a mask must have one entry a sample, {len(rows)}, not shape {at.shape}")
        at = np.flatnonzero(at)
    elif at.size and at.ndim != 1:
        raise ConfigError(f"positions must have one dimension, not shape {at.shape}")
    return checked_positions(at, len(rows))


def in_first_part(keys: Sequence[str], fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return (N,) bool, whether each key is in the part of about ``fraction`` of all keys.

    The part of a key depends on the key and the seed alone.
    """
    limit = int(fraction * (1 << 64))
    return np.fromiter((one < limit for one in _hashes(keys, seed)), bool, len(keys))


def in_first_part_of_each(
    keys: Sequence[str], strata: npt.NDArray[np.int64], fraction: float, seed: int
) -> npt.NDArray[np.bool_]:
    """Return (N,) bool, whether each key is in the first part, which has ``fraction`` of each stratum.

    The share of a stratum is rounded down or up, so that the share of all keys is rounded to the nearest
    integer (the method of the largest remainders). The first part has the lowest hashes.
    """
    # strata (N,)
    hashes = np.fromiter(_hashes(keys, seed), np.uint64, len(keys))
    order = np.lexsort((hashes, strata))
    counts = np.bincount(strata)
    whole = np.floor(counts * fraction).astype(np.int64)
    by_remainder = np.argsort(whole - counts * fraction, kind="stable")
    whole[by_remainder[: round(len(keys) * fraction) - int(whole.sum())]] += 1
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - (np.cumsum(counts) - counts)[strata[order]]
    return np.asarray(rank < whole[strata])


def _hashes(keys: Iterable[str], seed: int) -> Iterator[int]:
    salt = int(seed).to_bytes(16, "little", signed=True)
    for key in keys:
        yield int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8, key=salt).digest(), "little")
