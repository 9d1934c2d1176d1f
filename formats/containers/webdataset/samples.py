"""Samples in tar archives: neighbouring members with one key, as WebDataset groups them.

The key is the path of a member up to the first dot of the file name, and the rest is its suffix, in lower
case (``base_plus_ext`` and ``group_by_keys`` in WebDataset's tariterators.py, release 1.0). As there, members
whose path has no such dot, and members in folders like ``__meta__``, belong to no sample. WebDataset silently
leaves out links and sparse files; here they are parts that cannot be read, so that their samples are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..base import Read, RecordPart
from ..messages.wire import Span
from .headers import BadArchiveError
from .members import Member, find_members

_META = re.compile(r"__[^/]*__($|/)")


class TarSample(NamedTuple):
    """Neighbouring members with one key."""

    key: str  # Their key
    offset: int  # Offset of the first header
    length: int  # Bytes from there to the end of the last member
    parts: tuple[RecordPart, ...]  # The members; their offsets count from the offset of the sample


def find_samples(read: Read, size: int) -> Iterator[TarSample]:
    """Yield the samples of an archive in their order."""
    groups = _Groups()
    try:
        for member in find_members(read, size):
            if (sample := groups.add(member)) is not None:
                yield sample
        if (sample := groups.end()) is not None:
            yield sample
    except BadArchiveError as error:
        error.key = groups.key
        raise


class _Groups:
    """Gathers neighbouring members with one key."""

    def __init__(self) -> None:
        self.key: str | None = None
        self._seen: set[str] = set()
        self._members: list[tuple[str, Member]] = []

    def add(self, member: Member) -> TarSample | None:
        """Add a member, and return the sample that ends before it."""
        split = _split(member.name)
        if split is None:
            return None
        key, suffix = split
        ended = None
        if key != self.key:
            ended = self.end()
            if key in self._seen:
                raise BadArchiveError(
                    f"the members of {key} are not next to each other",
                    "sort the members by name, as by: tar --sort=name -cf NEW.tar FOLDER",
                )
            self._seen.add(key)
            self.key = key
            self._members.clear()
        self._members.append((suffix, member))
        return ended

    def end(self) -> TarSample | None:
        """Return the last sample; None before the first."""
        return None if self.key is None else _sample(self.key, self._members)


def _split(name: str) -> tuple[str, str] | None:
    """Return key and suffix of a member; None for one that belongs to no sample."""
    folder, slash, file = name.rpartition("/")
    stem, dot, suffix = file.partition(".")
    if not dot or not stem or (name.startswith("__") and _META.match(name)):
        return None
    return f"{folder}{slash}{stem}", suffix.lower()


def _sample(key: str, members: list[tuple[str, Member]]) -> TarSample:
    start, last = members[0][1].start, members[-1][1]
    parts = [
        RecordPart(suffix, member.kind, Span(member.offset - start, member.length))
        for suffix, member in members
    ]
    if len(dict(members)) < len(parts):
        raise BadArchiveError(f"two members of {key} have one name")
    return TarSample(key, start, last.offset + last.length - start, tuple(parts))
