"""The classes of a selection: their choice by name, and their new numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..columns.list_column import ListColumn

Ints = npt.NDArray[np.int64]

_SHOWN = 10  # names in a hint
_TEXT = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def class_numbers(classes: Sequence[str], wanted: str | Sequence[str]) -> list[int]:
    """Return the numbers of the wanted classes; ``classes`` has the names of all, by number."""
    return [_number(classes, name) for name in ([wanted] if isinstance(wanted, str) else wanted)]


def _number(classes: Sequence[str], name: str) -> int:
    if not isinstance(name, str):
        raise ConfigError(
            f"classes must be names of classes, found {name!r}",
            hint=f"Choose numbers by a condition: select('label in ({name!r},)').",
        )
    if name in classes:
        return classes.index(name)
    near = get_close_matches(name, classes, n=_SHOWN) or classes[:_SHOWN]
    more = " ..." if len(near) == _SHOWN < len(classes) else ""
    hint = f"There are {', '.join(near)}{more}" if near else "The dataset has no names of classes."
    raise ConfigError(f"there is no class {name!r}", hint=hint)


def has_class(labels: ListColumn, numbers: list[int]) -> npt.NDArray[np.bool_]:
    """Return (N,) bool, whether one of each sample's several labels is among ``numbers``."""
    owner = np.repeat(np.arange(len(labels.counts)), labels.counts)
    return np.isin(np.arange(len(labels.counts)), owner[np.isin(labels.values, numbers)])


def names_classes(condition: str) -> list[str] | None:
    """Return the texts that a condition compares with ``class`` or ``label``; None if it compares neither.

    It is for hints, because conditions can name classes only by number.
    """
    compared = re.findall(r"\b(class|label)\b\s*(?:==|!=|in\b|not in\b)\s*([^)]*)", condition)
    names = [first or second for _, values in compared for first, second in _TEXT.findall(values)]
    return names if names or any(word == "class" for word, _ in compared) else None


@dataclass(frozen=True, eq=False)
class Numbering:
    """The classes of a selection, by their new numbers."""

    classes: tuple[str, ...]  # Their names
    numbers: Ints  # (C,) int64, their numbers in the index

    @classmethod
    def of(cls, classes: Sequence[str], numbers: Sequence[int]) -> Numbering:
        """Return the numbering by the order of ``classes``, whose numbers in the index are ``numbers``."""
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
