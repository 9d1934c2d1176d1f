"""Checks of arguments that all public functions share: integers, choices, names, unknown names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import wraps
from operator import index
from typing import Any, ClassVar, ParamSpec, SupportsIndex, TypeVar

from stoker.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
N = TypeVar("N", bound="NamedArguments")


def list_of_names(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that an argument lists as a tuple."""
    if isinstance(names, str):
        raise ConfigError(
            f"{argument} must be a list of names, found {names!r}", hint=f"Write {argument}=({names!r},)."
        )
    return tuple(names)


def some_of(names: Iterable[object], most: int = 10) -> str:
    """Return the first of several names for a message, and how many more there are."""
    shown = list(map(str, names))
    return ", ".join(shown[:most]) + f" and {len(shown) - most:,} more" * (len(shown) > most)


def one_of(argument: str, value: T, allowed: Collection[object]) -> T:
    """Return the value of an argument, which must be one of those allowed."""
    if value not in allowed:
        raise ConfigError(f"{argument} must be one of {', '.join(map(str, allowed))}, found {value!r}")
    return value


def check_progress(progress: object) -> None:
    """Raise ConfigError unless ``progress`` is a function or None."""
    if progress is not None and not callable(progress):
        raise ConfigError(
            f"progress must be a function, found {progress!r}",
            hint="Leave it out, or give a function that shows the numbers which it gets. The command line "
            "shows progress by itself.",
        )


class NamedArguments:
    """A class whose error for an unknown keyword argument names what takes its place, see stoker.porting."""

    equivalents: ClassVar[str] = ""  # the key of the table of that module

    def __new__(cls: type[N], *_: Any, **arguments: Any) -> N:
        if not arguments.keys() <= set(cls.__init__.__code__.co_varnames):
            from stoker.porting import check_arguments

            check_arguments(cls, arguments, cls.equivalents)
        return super().__new__(cls)


def named_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of conversions as :class:`NamedArguments` does a class."""
    known = set(inspect.signature(function).parameters)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs.keys() <= known:
            from stoker.porting import check_arguments

            check_arguments(function, kwargs, "conversion")
        return function(*args, **kwargs)

    return call


def whole_number(name: str, value: SupportsIndex, least: int | None = None, most: int | None = None) -> int:
    """Return an argument as a Python int within its limits; a bool is not an integer."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None:
        raise ConfigError(f"{name} must be an integer, found {value!r}")
    if least is not None and number < least:
        raise ConfigError(f"{name} must be at least {least}, found {number}")
    if most is not None and number > most:
        raise ConfigError(f"{name} must be at most {most}, found {number}")
    return number


def optional_number(name: str, value: SupportsIndex | None, least: int | None = None) -> int | None:
    """Return :func:`whole_number` of an argument, or None if it is None."""
    return None if value is None else whole_number(name, value, least)
