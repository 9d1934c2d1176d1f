"""Arguments that are numbers, checked."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from stoker.errors import ConfigError

__all__ = ["check_number"]


def check_number(name: str, value: SupportsIndex | None, least: int) -> None:
    """See that an argument, where it is given, is an integer of any kind, and not too small.

    Raises:
        ConfigError: It is not.
    """
    if value is None:
        return
    try:
        number = index(value)
    except TypeError:
        raise ConfigError(f"{name} must be an integer, found {value!r}") from None
    if number < least:
        raise ConfigError(f"{name} must be at least {least}, found {number}")
