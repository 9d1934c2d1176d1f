"""The ledger of a training: the samples left out, and from which point on. States of loaders hold it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import CheckpointError, ConfigError

from ..sample_source import SampleSource

Int64 = npt.NDArray[np.int64]
Point = tuple[int, ...]

__all__ = ["Exclusion", "Ledger", "positions_of"]


@dataclass(frozen=True)
class Exclusion:
    """Samples that are left out from one point of a training on.

    Attributes:
        begin: The point. For images it is one number: that of a draw, counted over all epochs; where the
            sizes of images plan batches, the epoch times its draws plus the number of the step in it. For
            text it is the epoch, how often the number of ranks has changed within it, and the step.
        rows: Positions of the samples in the source, ascending.
    """

    begin: Point
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Ledger:
    """All exclusions of a training, in the order in which they were declared."""

    exclusions: tuple[Exclusion, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.exclusions)

    @cached_property
    def rows(self) -> Int64:
        """All positions of all exclusions, ascending, (M,) int64."""
        return np.unique(np.array([row for one in self.exclusions for row in one.rows], np.int64))

    def after(self, begin: Point, rows: Int64) -> Ledger:
        """The ledger with one more exclusion."""
        return Ledger((*self.exclusions, Exclusion(begin, tuple(np.unique(rows).tolist()))))

    def at(self, point: Point) -> Int64:
        """Positions that are left out at a point, ascending, (M,) int64."""
        begun = [row for one in self.exclusions if one.begin <= point for row in one.rows]
        return np.unique(np.array(begun, np.int64))

    def to_json(self) -> list[dict[str, Any]]:
        """The ledger for a state."""
        return [{"from": list(one.begin), "rows": list(one.rows)} for one in self.exclusions]

    @classmethod
    def from_json(cls, data: Any, samples: int, numbers: int) -> Ledger:
        """Read the ledger of a state.

        Args:
            data: What :meth:`to_json` returned.
            samples: Number of samples of the source.
            numbers: How many numbers a point has.

        Raises:
            CheckpointError: The data is no ledger of such a source.
        """
        found = []
        for one in data if isinstance(data, list) else [None]:
            if not isinstance(one, Mapping) or set(one) != {"from", "rows"}:
                raise _no_ledger(one)
            begin, rows = one["from"], one["rows"]
            if not (_are_numbers(begin) and len(begin) == numbers and _are_numbers(rows)):
                raise _no_ledger(one)
            if rows and max(rows) >= samples:
                raise CheckpointError(
                    f"the state leaves out sample {max(rows)}, and the dataset has {samples}",
                    hint="Make the loader with the dataset of the saved one.",
                )
            found.append(Exclusion(tuple(begin), tuple(rows)))
        return cls(tuple(found))


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _no_ledger(found: Any) -> CheckpointError:
    return CheckpointError(
        f"the state's list of excluded samples cannot be read: {found!r:.100}",
        hint="Pass what state_dict() returned.",
    )


def positions_of(source: SampleSource, keys: Iterable[str | int]) -> Int64:
    """Return the positions, ascending, of the samples with these keys; a number is a position already.

    Raises:
        ConfigError: There is no such key or position.
    """
    given = list(keys)
    names = sorted({key for key in given if isinstance(key, str)})
    numbers = np.array([int(key) for key in given if not isinstance(key, str)], np.int64)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(source):
        raise ConfigError(f"positions go from 0 to {len(source) - 1}, found {numbers.min()}, {numbers.max()}")
    found, known, first = [numbers], set[str](), 0
    for dataset in source.datasets if names else ():
        wanted = np.asarray(
            pc.is_in(dataset.index.arrow("key"), value_set=pa.array(names, pa.large_string()))
        )
        own = np.flatnonzero(wanted[dataset.rows])
        known.update(dataset.keys(own))
        found.append(first + own)
        first += len(dataset)
    if missing := sorted(set(names) - known):
        raise ConfigError(
            f"no sample has the key {missing[0]!r}" + (f", and {len(missing) - 1} more" * (len(missing) > 1)),
            hint="Keys are those of the column 'key' of a batch, and of loader.dataset.keys().",
        )
    return np.unique(np.concatenate(found))
