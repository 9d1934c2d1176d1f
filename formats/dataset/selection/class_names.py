"""Selection of samples by the names of their classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..columns.list_column import ListColumn

__all__ = ["class_numbers", "has_class", "names_classes"]

_SHOWN = 10  # names in a hint


def class_numbers(known: Sequence[str], wanted: str | Sequence[str]) -> list[int]:
    """Return the numbers of classes.

    Args:
        known: Names of all classes, by number.
        wanted: Names of some.

    Raises:
        ConfigError: There is no such class.
    """
    return [_number(known, name) for name in ([wanted] if isinstance(wanted, str) else wanted)]


def _number(known: Sequence[str], name: str) -> int:
    if not isinstance(name, str):
        raise ConfigError(
            f"classes must be names of classes, found {name!r}",
            hint=f"Choose numbers by a condition: select('label in ({name!r},)').",
        )
    if name in known:
        return known.index(name)
    near = get_close_matches(name, known, n=_SHOWN) or known[:_SHOWN]
    more = " ..." if len(near) == _SHOWN < len(known) else ""
    hint = f"There are {', '.join(near)}{more}" if near else "The dataset has no names of classes."
    raise ConfigError(f"there is no class {name!r}", hint=hint)


def has_class(labels: ListColumn, numbers: list[int]) -> npt.NDArray[np.bool_]:
    """Return (N,) bool, whether one of each sample's several labels is among ``numbers``."""
    owner = np.repeat(np.arange(len(labels.counts)), labels.counts)
    return np.isin(np.arange(len(labels.counts)), owner[np.isin(labels.values, numbers)])


def names_classes(condition: str) -> list[str] | None:
    """Return the texts that a condition compares with ``class`` or ``label``; None if it compares neither.

    For hints: a condition speaks of numbers of classes alone.
    """
    compared = re.findall(r"\b(class|label)\b\s*(?:==|!=|in\b|not in\b)\s*([^)]*)", condition)
    names = [first or second for _, values in compared for first, second in _TEXT.findall(values)]
    return names if names or any(word == "class" for word, _ in compared) else None


_TEXT = re.compile(r"'([^']*)'|\"([^\"]*)\"")
