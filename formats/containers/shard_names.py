"""Names of shards as users write them: lists in braces, patterns, and folders."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

from stoker.errors import ConfigError, SourceError
from stoker.urls import is_url

from ..files import check_named
from .container import SUFFIXES

_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(\d{1,18}))?")
_MOST_NAMES = 1_000_000  # names of one list
_CHECK = "Check the spelling of the folder and of the pattern."


def expand(path: str | os.PathLike[str]) -> list[str]:
    """Return the resolved paths, or the URLs, of the shards that a user names."""
    # A name may have lists in braces (``train-{000..099}.tar``, ``{a,b}.tar``) and patterns (``*.tar``; at a
    # URL in its last part alone). A folder stands for the files in it that have the suffix of a container or,
    # without any, for those with another suffix after it, which are compressed.
    check_named(shard=path)
    text = os.fspath(path)
    if is_url(text):
        return [url for name in expand_braces(text) for url in _at_url(name)]
    if os.path.lexists(text):
        return _on_disk(text)
    return [file for name in expand_braces(text) for file in _on_disk(name)]


def expand_braces(text: str) -> list[str]:
    """Return the names that a list in braces stands for, as a shell does."""
    # ``{000..099}`` counts, with leading zeros if the limits have them; ``{a,b}`` lists; other braces stay.
    names = list(islice(_braces(text), _MOST_NAMES + 1))
    if len(names) > _MOST_NAMES:
        raise ConfigError(
            f"the name stands for more than {_MOST_NAMES:,} shards",
            path=text,
            hint="Check the limits of the lists in braces.",
        )
    return names


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Return whether a path that does not exist, or a URL, has a list in braces or a pattern."""
    text = os.fspath(path)
    if not is_url(text) and os.path.lexists(text):
        return False
    return "{" in text or ("*" in text if is_url(text) else glob.has_magic(text))


def _braces(text: str) -> Iterator[str]:
    start = text.find("{")
    if (group := _group(text, start)) is None:
        yield text
        return
    *parts, after = group
    if len(parts) > 1:
        choices: Iterator[str] = (choice for part in parts for choice in _braces(part))
    elif (match := _RANGE.fullmatch(parts[0])) is not None:
        choices = _count(*match.groups())
    else:
        choices = (f"{{{choice}}}" for choice in _braces(parts[0]))
    for choice in choices:
        for rest in _braces(after):
            yield f"{text[:start]}{choice}{rest}"


def _group(text: str, start: int) -> list[str] | None:
    """Split the braces that open at ``start`` at their own commas; the last part follows them."""
    depth, cuts = 0, [start]
    for at in range(start, len(text)) if start >= 0 else ():
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0 or (depth == 1 and text[at] == ","):
            cuts.append(at)
        if depth == 0:
            return [text[a + 1 : b] for a, b in pairwise([*cuts, len(text)])]
    return None


def _count(first: str, last: str, step: str | None) -> Iterator[str]:
    low, high = int(first), int(last)
    by = max(int(step or 1), 1) * (1 if low <= high else -1)
    is_padded = any(re.match(r"-?0\d", limit) for limit in (first, last))
    width = max(len(first), len(last)) if is_padded else 0
    return (f"{number:0{width}d}" for number in range(low, high + (1 if by > 0 else -1), by))


def _on_disk(name: str) -> list[str]:
    if not os.path.lexists(name) and glob.has_magic(name):
        if not (matching := sorted(glob.glob(name, recursive=True))):  # noqa: PTH207 - patterns may be absolute
            raise SourceError("no file matches the pattern", path=name, hint=_CHECK)
        return [str(Path(file).resolve()) for file in matching]
    path = Path(name).resolve()
    if not path.is_dir():
        return [str(path)]
    with os.scandir(path) as entries:  # one at a time: it may be a folder of a million images
        names = [entry.name for entry in entries if _may_be_shard(entry.name) and entry.is_file()]
    return [str(path / name) for name in _shards_among(names)] or [str(path)]


def _at_url(url: str) -> list[str]:
    from ..remote.store import Store

    folder, _, pattern = url.rstrip("/").rpartition("/")
    if "*" in pattern:
        names = [file.name for file in Store(folder).files() if "/" not in file.name]
        if not (matching := fnmatch.filter(names, pattern)):
            raise SourceError("no file matches the pattern", path=url, hint=_CHECK)
        return [f"{folder}/{name}" for name in matching]
    whole = Store(f"{folder}/{pattern}")
    if _has_suffix(pattern) or Store(folder).size(pattern) is not None or not whole.is_folder():
        return [whole.url]
    names = [file.name for file in whole.files() if "/" not in file.name]
    return [f"{whole.url}/{name}" for name in _shards_among(names)] or [whole.url]


def _shards_among(names: list[str]) -> list[str]:
    """Return the names of shards, or else those of compressed shards, sorted."""
    plain = sorted(filter(_has_suffix, names))
    return plain or sorted(filter(_may_be_shard, names))


def _may_be_shard(name: str) -> bool:
    return _has_suffix(name) or _has_suffix(Path(name).stem)


def _has_suffix(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")
