"""What lies in a local folder, seen one entry at a time: a folder of images may hold a million files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .suffixes import has_image_suffix

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["holds_alone", "holds_without_images"]


def holds_without_images(folder: str | os.PathLike[str], suffix: str) -> bool:
    """Return whether a folder has files with a suffix, and neither images nor folders beside them.

    Hidden entries do not count.
    """
    return _holds(folder, suffix, lambda entry: not has_image_suffix(entry.name) and not entry.is_dir())


def holds_alone(folder: str | os.PathLike[str], suffix: str, others: tuple[str, ...]) -> bool:
    """Return whether a folder has files with a suffix, and nothing without it or one of some others.

    Hidden entries do not count.
    """
    return _holds(folder, suffix, lambda entry: entry.name.endswith((suffix, *others)))


def _holds(
    folder: str | os.PathLike[str], suffix: str, may_lie_there: Callable[[os.DirEntry[str]], bool]
) -> bool:
    found = False
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if not may_lie_there(entry):
                return False
            found = found or entry.name.endswith(suffix)
    return found
