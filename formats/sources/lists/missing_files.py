"""The likely cause where the files that a list names are not there, for the hint of an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ..folders.suffixes import IMAGE_SUFFIXES

_TRIED = 20  # paths; a mistake in a prefix is in all of them
_FOLDERS = 100  # subfolders that may be the missing prefix


def likely_cause(folder: str, paths: Sequence[str]) -> str:
    """Return a change after which most of the paths lead to files, or else the path that was tried.

    ``paths`` is not empty, and relative ones start in ``folder``.
    """
    first_paths = sorted(paths)[:_TRIED]
    for change, words in _changes(folder, first_paths[0]):
        if sum(os.path.isfile(change(path)) for path in first_paths) > len(first_paths) / 2:  # noqa: PTH113 - tried often
            return words
    tried = os.path.join(folder, first_paths[0])  # noqa: PTH118 - the path may be absolute
    return f"relative paths start at {folder}: the first file would be {tried}"


def _changes(folder: str, first: str) -> Iterator[tuple[Callable[[str], str], str]]:
    """Yield functions that change a path, each with the hint if the changed paths lead to files."""
    for base in dict.fromkeys((os.getcwd(), os.path.dirname(folder))):  # noqa: PTH109, PTH120 - texts
        yield (
            partial(os.path.join, base),
            f"relative paths start at the folder of the list, and these files are in {base}: "
            "put the list there, or write absolute paths",
        )
    parts = first.split("/")
    for count in range(1, len(parts)):
        prefix = "/".join(parts[:count]) + "/"
        words = f"the files are there without the prefix {prefix!r} of their paths: remove it from the list"
        yield partial(_without, folder, prefix), words
    for name in _subfolders(folder):
        words = f"the files are there with the prefix {name + '/'!r}: write it before each path"
        yield partial(os.path.join, folder, name), words
    for suffix in IMAGE_SUFFIXES:
        words = f"the files are there with the suffix {suffix!r}: add it: --suffix {suffix}"
        yield partial(_with_suffix, folder, suffix), words


def _without(folder: str, prefix: str, path: str) -> str:
    return os.path.join(folder, path.removeprefix(prefix))  # noqa: PTH118 - the path may be absolute


def _with_suffix(folder: str, suffix: str, path: str) -> str:
    return os.path.join(folder, path) + suffix  # noqa: PTH118 - the path may be absolute


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())[:_FOLDERS]
    except OSError:
        return []
