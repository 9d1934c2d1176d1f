"""Checks of integer arguments, for all public functions of the pipeline."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from stoker.errors import ConfigError


def whole_number(name: str, value: SupportsIndex, least: int | None = None) -> int:
    """Return an argument as a Python int, which checkpoints need."""
    try:
        number = index(value)
    except TypeError:
        raise ConfigError(f"{name} must be an integer, found {value!r}") from None
    if least is not None and number < least:
        raise ConfigError(f"{name} must be at least {least}, found {number}")
    return number


def optional_number(name: str, value: SupportsIndex | None, least: int | None = None) -> int | None:
    """Return :func:`whole_number` of an argument, or None if it is None."""
    return None if value is None else whole_number(name, value, least)
