"""Arguments that are numbers, checked."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex, overload

from stoker.errors import ConfigError

__all__ = ["whole_number"]


@overload
def whole_number(name: str, value: SupportsIndex, least: int | None = None) -> int: ...
@overload
def whole_number(name: str, value: None, least: int | None = None) -> None: ...
def whole_number(name: str, value: SupportsIndex | None, least: int | None = None) -> int | None:
    """An argument, where it is given, as Python's own integer: a checkpoint knows no other.

    Raises:
        ConfigError: It is no integer of any kind, such as NumPy's, or less than ``least``.
    """
    if value is None:
        return None
    try:
        number = index(value)
    except TypeError:
        raise ConfigError(f"{name} must be an integer, found {value!r}") from None
    if least is not None and number < least:
        raise ConfigError(f"{name} must be at least {least}, found {number}")
    return number
