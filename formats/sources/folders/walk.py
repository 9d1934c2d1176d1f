"""A walk through a local folder and the folders in it, with links or without.

A link may lead anywhere, to a regular file or to a folder, as in subsets of ImageNet, in the caches of
Hugging Face and in DVC. A link to a folder that holds the link is not followed, so the walk ends. A file or
folder whose name starts with a dot is hidden.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from stoker.errors import SourceError

from ...files import is_inside, is_unicode, printable_name
from ..listing import Skip
from .suffixes import has_image_suffix

EMPTY = "empty folder"

_SORTED = 10_000  # entries of a folder that are sorted at a time
_MOST_LINKS = 4  # to folders in linked folders: folders that link to each other have countless paths


class FileEntry(NamedTuple):
    """A file, or anything else that is no folder."""

    key: str  # Its path in the source
    entry: os.DirEntry[str]  # Its entry in its folder


class SkippedFolder(NamedTuple):
    """A folder that is left out, so that a class may be missing."""

    skip: Skip  # The folder and the reason
    # The files in it, so that each is counted; empty where they cannot be listed
    files: tuple[Skip, ...] = ()

    @property
    def skips(self) -> tuple[Skip, ...]:
        """The files that are left out; the folder itself where they are not known."""
        return self.files or (self.skip,)


class _Folder(NamedTuple):
    """A folder to walk."""

    key: str
    path: str  # on the disk, without links
    links: tuple[str, ...] = ()  # paths of the folders that hold the links that lead to it


def walk_folder(root: str, *, follow_links: bool) -> Iterator[FileEntry | Skip | SkippedFolder]:
    """Everything under ``root``, a resolved folder, in the order of keys.

    A folder of more than :data:`_SORTED` entries is in that order only in part, so that memory stays small.
    """
    walked = [_entries(_Folder("", root), follow_links)]
    while walked:
        entry = next(walked[-1], None)
        if entry is None:
            walked.pop()
        elif isinstance(entry, _Folder):
            walked.append(_entries(entry, follow_links))
        else:
            yield entry


def _entries(folder: _Folder, follow_links: bool) -> Iterator[_Folder | FileEntry | Skip | SkippedFolder]:
    """The entries of a folder, in the order of the keys of the files in them."""
    empty = True
    try:
        with os.scandir(folder.path) as entries:
            while part := list(islice(entries, _SORTED)):
                items = [_look_at(entry, folder, follow_links) for entry in part]
                empty = empty and all(entry.name.startswith(".") for entry in part)
                part.clear()
                items.sort(key=_order, reverse=True)
                while items:
                    yield items.pop()  # an entry whose status was asked takes several hundred bytes
    except OSError as error:
        if not folder.key:
            raise SourceError(f"the folder cannot be read: {error.strerror}", path=folder.path) from error
        yield SkippedFolder(Skip(folder.key, "unreadable", error.strerror or ""))
        return
    if empty and folder.key:
        yield SkippedFolder(Skip(folder.key, EMPTY))


def _order(entry: _Folder | FileEntry | Skip | SkippedFolder) -> str:
    """The key, with the character that follows it in the keys of files."""
    if isinstance(entry, SkippedFolder):
        return entry.skip.key
    return f"{entry.key}/" if isinstance(entry, _Folder) else entry.key


def _look_at(
    entry: os.DirEntry[str], folder: _Folder, follow_links: bool
) -> _Folder | FileEntry | Skip | SkippedFolder:
    """The entry of a folder, or the folder that it is or leads to."""
    key = f"{folder.key}/{entry.name}" if folder.key else entry.name
    if entry.name.startswith("."):
        return Skip(printable_name(key), "hidden")
    path = f"{folder.path}/{entry.name}"
    is_folder = entry.is_dir(follow_symlinks=False)
    if not is_unicode(entry.name):
        skip = Skip(printable_name(key), "name is not UTF-8")
        return _skipped_folder(path, skip) if is_folder else skip
    if is_folder:
        return _Folder(key, path, folder.links)
    return _look_at_link(entry, key, folder, follow_links) if entry.is_symlink() else FileEntry(key, entry)


def _look_at_link(
    entry: os.DirEntry[str], key: str, folder: _Folder, follow_links: bool
) -> _Folder | FileEntry | Skip | SkippedFolder:
    path = f"{folder.path}/{entry.name}"
    try:
        leads_to_folder = stat.S_ISDIR(entry.stat().st_mode)
    except OSError as error:
        skip = Skip(key, "unreadable", error.strerror or "")
        may_be_class = not folder.key and not has_image_suffix(key)
        return SkippedFolder(skip) if may_be_class else skip
    if not follow_links:
        skip = Skip(key, "link")
        return _skipped_folder(path, skip) if leads_to_folder else skip
    return _linked_folder(path, key, folder) if leads_to_folder else FileEntry(key, entry)


def _linked_folder(path: str, key: str, folder: _Folder) -> _Folder | SkippedFolder | Skip:
    target = os.path.realpath(path)
    links = (*folder.links, folder.path)
    if any(holder == target or is_inside(holder, target) for holder in links):
        return Skip(key, "link to a folder that holds it")
    if len(links) > _MOST_LINKS:
        return SkippedFolder(Skip(key, "link behind too many links"))
    return _Folder(key, target, links)


def _skipped_folder(path: str, skip: Skip) -> SkippedFolder:
    try:
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))  # noqa: PTH208 - a text
    except OSError:
        names = []
    return SkippedFolder(
        skip, tuple(Skip(f"{skip.key}/{printable_name(name)}", skip.reason) for name in names)
    )
