"""Arguments that are numbers, checked."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from stoker.errors import ConfigError

__all__ = ["optional_number", "whole_number"]


def whole_number(name: str, value: SupportsIndex, least: int | None = None) -> int:
    """An argument as Python's own integer: a checkpoint knows no other.

    Raises:
        ConfigError: It is no integer of any kind, such as NumPy's, or less than ``least``.
    """
    try:
        number = index(value)
    except TypeError:
        raise ConfigError(f"{name} must be an integer, found {value!r}") from None
    if least is not None and number < least:
        raise ConfigError(f"{name} must be at least {least}, found {number}")
    return number


def optional_number(name: str, value: SupportsIndex | None, least: int | None = None) -> int | None:
    """:func:`whole_number` of an argument that may be left out."""
    return None if value is None else whole_number(name, value, least)
