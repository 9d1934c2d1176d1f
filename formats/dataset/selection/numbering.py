"""New numbers of classes in a selection that has only some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..columns.list_column import ListColumn

Ints = npt.NDArray[np.int64]

__all__ = ["Numbering"]


@dataclass(frozen=True, eq=False)
class Numbering:
    """The classes of a selection, by their new numbers.

    Attributes:
        classes: Their names.
        numbers: (C,) int64, the number of each in the index.
    """

    classes: tuple[str, ...]
    numbers: Ints

    @classmethod
    def of(cls, classes: Sequence[str], numbers: Sequence[int]) -> Numbering:
        """Return the numbering by the order of ``classes``, which have these numbers in the index.

        Raises:
            ConfigError: A class is named twice.
        """
        if len(set(numbers)) < len(numbers):
            raise ConfigError(
                "a class is named twice, and renumber=True gives each one number", hint="name each class once"
            )
        return cls(tuple(classes), np.array(numbers, np.int64))

    def of_labels(self, labels: Ints) -> Ints:
        """Return new numbers for (N,) labels of the index; -1 for a label that is not among the classes."""
        order = np.argsort(self.numbers)
        at = np.searchsorted(self.numbers, labels, sorter=order)
        found = order[np.minimum(at, len(order) - 1)]
        return np.where(self.numbers[found] == labels, found, -1)

    def of_lists(self, lists: ListColumn) -> ListColumn:
        """Return lists of several labels, without the labels that are not among the classes."""
        labels = self.of_labels(lists.values)
        owner = np.repeat(np.arange(len(lists)), lists.counts)[labels >= 0]
        return ListColumn.of_counts(np.bincount(owner, minlength=len(lists)), labels[labels >= 0])
