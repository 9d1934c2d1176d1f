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


@dataclass(frozen=True)
class Exclusion:
    """Samples that are left out from one point of a training on."""

    begin: Point  # The point
    positions: tuple[int, ...]  # Positions of the samples in the source, ascending


@dataclass(frozen=True)
class Ledger:
    """All exclusions of a training, in the order in which they were declared."""

    exclusions: tuple[Exclusion, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.exclusions)

    @cached_property
    def positions(self) -> Int64:
        """All positions of all exclusions, ascending, (M,) int64."""
        return np.unique(
            np.array([p for exclusion in self.exclusions for p in exclusion.positions], np.int64)
        )

    def after(self, begin: Point, positions: Int64) -> Ledger:
        """The ledger with one more exclusion."""
        return Ledger((*self.exclusions, Exclusion(begin, tuple(np.unique(positions).tolist()))))

    def at(self, point: Point) -> Int64:
        """Positions that are left out at a point, ascending, (M,) int64."""
        begun = [exclusion for exclusion in self.exclusions if exclusion.begin <= point]
        return Ledger(tuple(begun)).positions

    def to_json(self) -> list[dict[str, Any]]:
        """The ledger for a state."""
        return [{"from": list(part.begin), "rows": list(part.positions)} for part in self.exclusions]

    @classmethod
    def from_json(cls, data: Any, samples: int, numbers: int) -> Ledger:
        """Read the ledger of a state."""
        exclusions = []
        for entry in data if isinstance(data, list) else [None]:
            if not isinstance(entry, Mapping) or set(entry) != {"from", "rows"}:
                raise _no_ledger(entry)
            begin, rows = entry["from"], entry["rows"]
            if not (_are_numbers(begin) and len(begin) == numbers and _are_numbers(rows)):
                raise _no_ledger(entry)
            if rows and max(rows) >= samples:
                raise CheckpointError(
                    f"the state leaves out sample {max(rows)}, and the dataset has {samples}",
                    hint="Make the loader with the dataset of the saved one.",
                )
            exclusions.append(Exclusion(tuple(begin), tuple(rows)))
        return cls(tuple(exclusions))


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _no_ledger(entry: Any) -> CheckpointError:
    return CheckpointError(
        f"the state's list of excluded samples cannot be read: {entry!r:.100}",
        hint="Pass what state_dict() returned.",
    )


def positions_of(source: SampleSource, keys: Iterable[str | int]) -> Int64:
    """Return the positions, ascending, of the samples with these keys; a number is a position already."""
    values = list(keys)
    names = sorted({key for key in values if isinstance(key, str)})
    numbers = np.array([int(key) for key in values if not isinstance(key, str)], np.int64)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(source):
        raise ConfigError(f"positions go from 0 to {len(source) - 1}, found {numbers.min()}, {numbers.max()}")
    positions, known, first = [numbers], set[str](), 0
    for dataset in source.datasets if names else ():
        is_wanted = np.asarray(
            pc.is_in(dataset.index.arrow("key"), value_set=pa.array(names, pa.large_string()))
        )
        local = np.flatnonzero(is_wanted[dataset.rows])
        known.update(dataset.keys(local))
        positions.append(first + local)
        first += len(dataset)
    if missing := sorted(set(names) - known):
        raise ConfigError(
            f"no sample has the key {missing[0]!r}" + (f", and {len(missing) - 1} more" * (len(missing) > 1)),
            hint="Keys are those of the column 'key' of a batch, and of loader.dataset.keys().",
        )
    return np.unique(np.concatenate(positions))
