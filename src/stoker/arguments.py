"""Checks of arguments that all public functions share: integers, choices, names, progress, former names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import wraps
from operator import index
from typing import ParamSpec, SupportsIndex, TypeVar

from stoker.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def list_of_names(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that an argument lists as a tuple."""
    if isinstance(names, str):
        raise ConfigError(
            f"{argument} must be a list of names, found {names!r}", hint=f"Write {argument}=({names!r},)."
        )
    return tuple(names)


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


def refuses_num_workers(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its TypeError for an argument of version 0.1.0 gives the name of today."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if "num_workers" in kwargs:
            raise TypeError(
                f"{function.__name__}() has no option 'num_workers': it is now called 'num_threads'"
            )
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
