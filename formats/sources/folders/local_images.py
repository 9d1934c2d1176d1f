"""Finding the images in a local folder and in the folders in it.

Links are followed to regular files within the source and nowhere else, so the walk neither leaves the source
nor loops. A file or folder whose name starts with a dot is hidden.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stoker.errors import SourceError

from ...files.paths import is_inside, is_regular, printable_name
from ..file_table import FileTable
from ..listing import Skip
from ..source_reader import looks_like_image
from .suffixes import has_image_suffix, why_no_image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..listing import ListedFiles

__all__ = ["FoundFile", "find_images", "may_be_image", "walk_images"]


def find_images(root: str | os.PathLike[str]) -> tuple[ListedFiles, list[Skip]]:
    """Files in a folder and in the folders in it that look like images, sorted; and the others, as skips.

    Raises:
        SourceError: The folder cannot be read.
    """
    folder = os.path.realpath(root)
    table = FileTable()
    skipped = []
    for found in walk_images(folder):
        if isinstance(found, Skip):
            skipped.append(found)
        else:
            table.add(*found)
    return table.sorted(Path(folder))[0], sorted(skipped)


class FoundFile(NamedTuple):
    """A file: its path in the source, bytes, and time in nanoseconds since 1970."""

    key: str
    size: int
    modified: int


def walk_images(root: str) -> Iterator[FoundFile | Skip]:
    """All files under ``root``, a resolved folder: those that look like images, and the others as skips."""
    folders = [""]
    while folders:
        prefix = folders.pop()
        try:
            with os.scandir(os.path.join(root, prefix)) as entries:  # noqa: PTH118 - a path object would take longer
                for entry in entries:
                    key = f"{prefix}/{entry.name}" if prefix else entry.name
                    if not _is_utf8(entry.name):
                        yield Skip(printable_name(key), "name is not UTF-8")
                    elif entry.name.startswith("."):
                        yield Skip(key, "hidden")
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(key)
                    else:
                        yield _look_at(entry, key, root)
        except OSError as error:
            if not prefix:
                raise SourceError(f"the folder cannot be read: {error.strerror}", path=root) from error
            yield Skip(prefix, "unreadable", error.strerror or "")


def _look_at(entry: os.DirEntry[str], key: str, root: str) -> FoundFile | Skip:
    try:
        if entry.is_symlink() and not is_inside(os.path.realpath(entry.path), root):
            return Skip(key, "link that leaves the source")
        status = entry.stat()
    except OSError as error:
        return Skip(key, "unreadable", error.strerror or "")
    if not is_regular(status):
        return Skip(key, "link to a folder" if entry.is_dir() else "not a regular file")
    # Files with the names of images need not be opened here.
    if not has_image_suffix(key) and not looks_like_image(root, key):
        return Skip(key, why_no_image(key))
    return FoundFile(key, status.st_size, status.st_mtime_ns)


def may_be_image(skip: Skip) -> bool:
    """Whether a file that was left out may be an image, so that a strict conversion must stop.

    Hidden files are none, such as those of file managers and version control, nor are files of which neither
    the name nor the content is that of an image.
    """
    if skip.reason == "not an image":
        return has_image_suffix(skip.key)
    return skip.reason != "hidden"


def _is_utf8(name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
