"""Checks of arguments that several public functions have: lists of names, and functions of progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_progress", "list_of_names"]


def list_of_names(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple.

    Args:
        argument: Name of the argument, for the error.
        names: Its value.

    Raises:
        ConfigError: It is one text, whose letters would be the names.
    """
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
            hint="Leave it out, or give a function that shows the numbers it is called with. The command "
            "line shows progress by itself.",
        )
