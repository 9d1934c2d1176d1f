"""The error for a keyword argument of version 0.1.0 that has another name now."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["renamed_option"]

P = ParamSpec("P")
R = TypeVar("R")


def renamed_option(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that a call with the keyword argument ``old`` names the new one.

    The call raises TypeError, as any unknown keyword argument does.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                raise TypeError(f"{function.__name__}() has no option {old!r}: it is now called {new!r}")
            return function(*args, **kwargs)

        return call

    return decorate
