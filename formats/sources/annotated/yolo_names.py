"""Names of classes for YOLO's text files: of ``data.yaml`` the few lists that matter, or ``classes.txt``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from stoker.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..folders.source_folder import SourceFolder

__all__ = ["YoloNames", "read_names"]

_YAML, _TEXT = ("data.yaml", "dataset.yaml", "data.yml"), "classes.txt"
_MEMBER = re.compile(r"(names|kpt_shape|flip_idx)\s*:\s*(.*)")
_ENTRY = re.compile(r"\s*(?:-\s+|(\d+)\s*:\s*)(.*)")


@dataclass(frozen=True)
class YoloNames:
    """What is known of classes and keypoints.

    Attributes:
        classes: Names by number; empty if there are none.
        keypoints: K, keypoints of an object.
        numbers: Numbers in a line for them: 2K or 3K.
        swap: K numbers, ``flip_idx``; empty if there are none.
    """

    classes: tuple[str, ...] = ()
    keypoints: int = 0
    numbers: int = 0
    swap: tuple[int, ...] = ()


def read_names(folders: Sequence[SourceFolder]) -> YoloNames:
    """Read the names from the first of the folders that has some.

    Raises:
        SourceError: The file is there and cannot be understood.
    """
    for folder in folders:
        for name in (*_YAML, _TEXT):
            if (lines := folder.lines(name)) is not None:
                if name != _TEXT:
                    return _of_yaml(f"{folder.root}/{name}", lines)
                return YoloNames(tuple(line.strip() for line in lines if line.strip()))
    return YoloNames()


def _of_yaml(path: str, lines: list[str]) -> YoloNames:
    members = {}
    for i, line in enumerate(lines):
        if match := _MEMBER.fullmatch(_bare(line)):
            members[match[1]] = _values(path, match[2], lines[i + 1 :])
    shape, swap = members.get("kpt_shape"), members.get("flip_idx", [])
    try:
        count, each = map(int, shape) if shape else (0, 2)
        flips = tuple(map(int, swap))
    except ValueError:
        _fail(path, "kpt_shape must be two integers, and flip_idx integers")
    if count < 0 or each not in (2, 3) or (flips and sorted(flips) != list(range(count))):
        _fail(path, "kpt_shape must be [K, 2] or [K, 3], and flip_idx name each of K keypoints once")
    return YoloNames(tuple(members.get("names", [])), count, count * each, flips)


def _bare(line: str) -> str:
    """A line without its comment."""
    return re.sub(r"(^|\s)#.*$", "", line).rstrip()


def _values(path: str, inline: str, following: list[str]) -> list[str]:
    """Values of a list, written as [a, b], {0: a}, or an entry a line."""
    entries: list[tuple[str | None, str]] = []
    if inline:
        text = " ".join([inline, *map(_bare, following)])
        match = re.match(r"\[(.*?)\]|\{(.*?)\}", text)
        if match is None:
            _fail(path, f"a list is expected, not {inline!r}")
        for word in re.findall(r"""(?:\d+\s*:\s*)?(?:'[^']*'|"[^"]*"|[^,'"]+)""", match[1] or match[2] or ""):
            number, _, value = word.strip().rpartition(":") if match[2] else ("", "", word)
            if value.strip():
                entries.append((number.strip() or None, value))
    else:
        for line in map(_bare, following):
            entry = _ENTRY.fullmatch(line)
            if line and entry is None:
                break
            if entry is not None:
                entries.append((entry[1], entry[2]))
    numbers = [int(number) if number else i for i, (number, _) in enumerate(entries)]
    if numbers != list(range(len(entries))):
        _fail(path, "the numbers of a list must count from 0")
    return [value.strip().strip("'\"") for _, value in entries]


def _fail(path: str, message: str) -> NoReturn:
    raise SourceError(
        f"the file cannot be understood: {message}",
        path=path,
        hint="or write the names of the classes into classes.txt, one a line, and remove this file",
    )
