"""Exclusions: samples that a training leaves out from some point on, and the draws that replace them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import CheckpointError, ConfigError
from stoker.formats.dataset.selection import check_unambiguous
from stoker.processes import cached_property
from stoker.random import hash_words

from .orders import Order, Repeat, Stream
from .quotas import Balanced, BalancedObjects, MixedOrder
from .sampling import SampleSource

Int64 = npt.NDArray[np.int64]
Point = tuple[int, ...]


@dataclass(frozen=True)
class Exclusion:
    """Samples that are left out from one point of a training on."""

    begin: Point  # The point
    positions: tuple[int, ...]  # Positions of the samples in the source, ascending


@dataclass(frozen=True)
class Exclusions:
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

    def after(self, begin: Point, positions: Int64) -> Exclusions:
        """These exclusions and one more."""
        return Exclusions((*self.exclusions, Exclusion(begin, tuple(np.unique(positions).tolist()))))

    def at(self, point: Point) -> Int64:
        """Positions that are left out at a point, ascending, (M,) int64."""
        begun = [exclusion for exclusion in self.exclusions if exclusion.begin <= point]
        return Exclusions(tuple(begun)).positions

    def to_json(self) -> list[dict[str, Any]]:
        """The exclusions for a state."""
        return [{"from": list(part.begin), "rows": list(part.positions)} for part in self.exclusions]

    @classmethod
    def from_json(cls, data: Any, samples: int, numbers: int) -> Exclusions:
        """Read the exclusions of a state."""
        exclusions = []
        for entry in data if isinstance(data, list) else [None]:
            found: Any = entry if isinstance(entry, Mapping) and set(entry) == {"from", "rows"} else {}
            begin, rows = found.get("from"), found.get("rows")
            if not (_are_numbers(begin) and len(begin) == numbers and _are_numbers(rows)):
                raise CheckpointError(
                    f"the state's list of excluded samples cannot be read: {entry!r:.100}",
                    hint="Pass what state_dict() returned.",
                )
            if rows and max(rows) >= samples:
                raise CheckpointError(
                    f"the state leaves out sample {max(rows)}, and the dataset has {samples}",
                    hint="Make the loader with the dataset of the saved one.",
                )
            exclusions.append(Exclusion(tuple(begin), tuple(rows)))
        return cls(tuple(exclusions))


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def positions_of(source: SampleSource, keys: Iterable[str | int]) -> Int64:
    """Return the positions, ascending, of the samples with these keys; a number is a position already."""
    values = list(keys)
    names = sorted({key for key in values if isinstance(key, str)})
    numbers = np.array([int(key) for key in values if not isinstance(key, str)], np.int64)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(source):
        raise ConfigError(f"positions go from 0 to {len(source) - 1}, found {numbers.min()}, {numbers.max()}")
    positions, found, first = [numbers], dict[tuple[str, int], str](), 0
    for dataset in source.datasets if names else ():
        is_wanted = np.asarray(
            pc.is_in(dataset.index.arrow("key"), value_set=pa.array(names, pa.large_string()))
        )
        local = np.flatnonzero(is_wanted[dataset.rows])
        # A selection may draw one sample at several positions, and a mixture from several selections.
        samples = ((dataset.manifest.fingerprint, row) for row in dataset.rows[local].tolist())
        found.update(zip(samples, dataset.keys(local), strict=True))
        positions.append(first + local)
        first += len(dataset)
    check_unambiguous(
        found.values(), "Give the position of the sample that is meant, as the column 'row' has it."
    )
    if missing := sorted(set(names) - set(found.values())):
        raise ConfigError(
            f"no sample has the key {missing[0]!r}" + (f", and {len(missing) - 1} more" * (len(missing) > 1)),
            hint="Keys are those of the column 'key' of a batch, and of loader.dataset.keys().",
        )
    return np.unique(np.concatenate(positions))


_REPLACEMENT = 0x53554253  # the word of these draws among the words of orders
_ATTEMPTS = 64


@dataclass(frozen=True, eq=False)
class Fitting:
    """A rule that says which samples may replace an excluded one."""

    numbers: npt.NDArray[Any]  # (N,) the group of each position, or its size
    # Whether samples with smaller numbers fit, too; otherwise only those with the same number
    smaller: bool = False

    def allows(self, tried: Int64, replaced: Int64) -> npt.NDArray[np.bool_]:
        """(M,) bool, whether each position of ``tried``, (M,), may replace that of ``replaced``, (M,)."""
        new, old = self.numbers[tried], self.numbers[replaced]
        return np.asarray(new <= old if self.smaller else new == old)

    def check_rest(self, excluded: Int64) -> None:
        """Raise ConfigError if no remaining sample may replace one of ``excluded``, (M,) positions."""
        kept, numbers = np.delete(self.numbers, excluded), self.numbers[excluded]
        lost = ~np.isin(numbers, kept)
        if self.smaller and kept.size:
            lost = numbers < kept.min()
        if lost.any():
            which = f"that could replace sample {excluded[lost][0]}" if kept.size else "of the dataset"
            raise ConfigError(
                f"exclude would leave no sample {which}",
                hint="Leave out fewer samples, or make a loader without its dataset, class or shape.",
            )


@dataclass(frozen=True, eq=False)
class Replacements:
    """The draws that replace draws of excluded samples; all other draws stay as they are.

    A replacement is the sample of a random draw of the same epoch that is not excluded and that ``fitting``
    allows. It depends only on the seed, the epoch and the number of the draw.
    """

    exclusions: Exclusions
    seed: int
    fitting: Fitting

    def shown(self, order: Order, epoch: int, draws: Int64, positions: Int64, shown_at: Int64) -> Int64:
        """The ``positions`` of ``draws``, with replacements where a sample is left out when it is shown."""
        # An image can show other draws of its epoch than its own: a mosaic shows its partners, and padding
        # repeats the first draws. ``shown_at`` are the draws that show them.
        # draws, positions, shown_at (M,) int64
        shown: Int64 = positions.copy()
        points = sorted({exclusion.begin[0] for exclusion in self.exclusions.exclusions})
        # As draws of this epoch; its end stands for later points.
        begins = [min(max(0, point - epoch * order.n), order.n) for point in points]
        begun = np.searchsorted(np.array(begins, np.int64), shown_at, side="right")
        for number in np.unique(begun[begun > 0]).tolist():
            excluded = self.exclusions.at((points[number - 1],))
            bad = np.flatnonzero((begun == number) & np.isin(positions, excluded))
            if bad.size:
                shown[bad] = self._replaced(order, epoch, draws[bad], positions[bad], excluded)
        return shown

    def _replaced(self, order: Order, epoch: int, draws: Int64, positions: Int64, excluded: Int64) -> Int64:
        """Replacements, (M,), of excluded ``positions``, (M,), of ``draws``, (M,)."""
        replaced: Int64 = positions.copy()
        if isinstance(order, Stream):  # so that the stream does not depend on the length of epochs
            for cycle, at, offsets in order.cycles(epoch, draws):
                replaced[at] = self._replaced(order.order, cycle, offsets, positions[at], excluded)
            return replaced
        units = draws // (order.times if isinstance(order, Repeat) else 1)
        left = np.arange(len(draws))
        for attempt in range(_ATTEMPTS):
            words = hash_words((self.seed, epoch, _REPLACEMENT, attempt), units[left])
            tried = order.positions(epoch, (words % np.uint64(order.n)).astype(np.int64))
            good = ~np.isin(tried, excluded) & self.fitting.allows(tried, positions[left])
            replaced[left[good]] = tried[good]
            left = left[~good]
            if not left.size:
                return replaced
        drawn = order.positions(epoch, np.arange(order.n))
        allowed = drawn[~np.isin(drawn, excluded)]
        for i in left.tolist():
            fitting = allowed[self.fitting.allows(allowed, positions[[i]])]
            if not fitting.size:
                raise ConfigError(
                    f"epoch {epoch} draws no sample that could replace sample {positions[i]}",
                    hint="Exclude fewer samples of its dataset, class or shape.",
                )
            word = hash_words((self.seed, epoch, _REPLACEMENT, _ATTEMPTS), units[[i]])[0]
            replaced[i] = fitting[int(word % np.uint64(fitting.size))]
        return replaced


def groups_of(order: Any) -> npt.NDArray[Any] | None:
    """(N,) group of each position, where groups have fixed shares of the draws; None without groups."""
    while isinstance(order, (Repeat, Stream)):
        order = order.order
    if isinstance(order, Balanced) and not isinstance(order, BalancedObjects):
        return order.column  # an image with objects has several classes
    if isinstance(order, MixedOrder):
        sizes = order.quota_schedule.sizes
        return np.repeat(np.arange(len(sizes)), sizes)
    return None


def fitting_of(order: Order, samples: int) -> Fitting:
    """Return the rule that a sample may replace another one of the same group, for ``samples`` positions."""
    groups = groups_of(order)
    return Fitting(np.broadcast_to(0, samples) if groups is None else groups)
