"""Checks of arguments that several public functions have: lists of names, progress, and former names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from stoker.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")


def list_of_names(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that an argument lists as a tuple."""
    if isinstance(names, str):
        raise ConfigError(
            f"{argument} must be a list of names, found {names!r}", hint=f"Write {argument}=({names!r},)."
        )
    return tuple(names)


def check_progress(progress: object) -> None:
    """Raise ConfigError unless ``progress`` is a function or None."""
    if progress is not None and not callable(progress):
        raise ConfigError(
            f"progress must be a function, found {progress!r}",
            hint="Leave it out, or give a function that shows the numbers which it gets. The command line "
            "shows progress by itself.",
        )


def renamed_option(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that its TypeError for the argument ``old``, of version 0.1.0, names ``new``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                raise TypeError(f"{function.__name__}() has no option {old!r}: it is now called {new!r}")
            return function(*args, **kwargs)

        return call

    return decorate
