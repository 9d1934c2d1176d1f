"""The images in a folder and in the folders in it, found on a disk or at a URL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...files import is_regular, printable_name
from ...remote.store import StoredFile
from ..file_table import FileTable
from ..listing import ListedFiles, Skip
from ..source_reader import looks_like_image
from .suffixes import has_image_suffix, is_array_name, why_no_image
from .walk import EMPTY, FileEntry, SkippedFolder, walk_folder


def find_images(root: str, *, follow_links: bool = True) -> tuple[ListedFiles, list[Skip]]:
    """Files under ``root``, a resolved folder, that look like images, sorted; and the others, as skips."""
    table = FileTable()
    skipped: list[Skip] = []
    for entry in walk_images(root, follow_links=follow_links):
        if isinstance(entry, Skip):
            skipped.append(entry)
        elif isinstance(entry, SkippedFolder):
            skipped += entry.skips if entry.skip.reason != EMPTY else ()
        else:
            table.add(*entry)
    return table.sorted(Path(root), follow_links=follow_links)[0], sorted(skipped)


class FoundFile(NamedTuple):
    """A file: its path in the source, bytes, and time in nanoseconds since 1970."""

    key: str
    size: int
    modified: int


def walk_images(root: str, *, follow_links: bool) -> Iterator[FoundFile | Skip | SkippedFolder]:
    """All files under ``root``, a resolved folder: those that look like images, and the others as skips.

    Arrays look like images where no file has the name of an image.
    """
    arrays: bool | None = None
    for entry in walk_folder(root, follow_links=follow_links):
        if not isinstance(entry, FileEntry):
            yield entry
            continue
        is_array = is_array_name(entry.key)
        if is_array and arrays is None:
            others = walk_folder(root, follow_links=follow_links)
            arrays = not any(isinstance(one, FileEntry) and has_image_suffix(one.key) for one in others)
        yield _look_at(entry, root, follow_links, bool(arrays) if is_array else None)


def _look_at(file: FileEntry, root: str, follow_links: bool, is_image: bool | None) -> FoundFile | Skip:
    """Return a file or the reason to skip it; if ``is_image`` is None, its name or content decides."""
    key = file.key
    try:
        status = file.entry.stat(follow_symlinks=follow_links)
    except OSError as error:
        return Skip(key, "unreadable", error.strerror or "")
    if not is_regular(status):
        return Skip(key, "not a regular file")
    # Files with the names of images need not be opened here.
    if is_image is None:
        is_image = has_image_suffix(key) or looks_like_image(root, key, follow_links=follow_links)
    if not is_image:
        return Skip(key, why_no_image(key))
    return FoundFile(key, status.st_size, status.st_mtime_ns)


def may_be_image(skip: Skip) -> bool:
    """Whether a file that was left out may be an image, so that a strict conversion must stop.

    Hidden files are no images, such as those of file managers and version control, and neither are files
    without the name and the content of an image.
    """
    if skip.reason == "not an image":
        return has_image_suffix(skip.key)
    return skip.reason not in ("hidden", EMPTY)


def find_remote_images(url: str, files: Iterable[StoredFile]) -> tuple[ListedFiles, list[Skip]]:
    """Files of a folder at a URL that have the names of images, sorted; and the others, as skips.

    Opening each file would take a request; its content decides when the file is converted. Arrays are images
    where no file has the name of an image.
    """
    table = FileTable()
    skipped, arrays, images = [], [], False
    for file in files:
        if any(part.startswith(".") for part in file.name.split("/")):
            skipped.append(Skip(printable_name(file.name), "hidden"))
        elif is_array_name(file.name):
            arrays.append(file)
        elif not has_image_suffix(file.name):
            skipped.append(Skip(printable_name(file.name), why_no_image(file.name)))
        else:
            table.add(*file)
            images = True
    for file in arrays:
        if images:
            skipped.append(Skip(printable_name(file.name), why_no_image(file.name)))
        else:
            table.add(*file)
    return table.sorted(url)[0], sorted(skipped)
