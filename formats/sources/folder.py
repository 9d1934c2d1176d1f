"""An image folder as a source: one class a directory.

The class of an image is the directory that holds it, named by its path in the source
(``animals/cat``); ``class_depth=1`` takes the first directory alone, as torchvision's ImageFolder
does. Links are followed to plain files that lie within the source and nowhere else, so the walk
neither leaves the source nor loops; what has a name that starts with a dot is hidden.
"""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from stoker.errors import SourceError

from ..files.paths import is_inside, is_regular, printable_name
from .file_table import FileTable
from .listing import Listing, Skip
from .no_images import no_images
from .source_reader import looks_like_image
from .suffixes import has_image_suffix, why_no_image

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from .listing import ListedFiles

__all__ = ["find_images", "list_folder", "may_be_image"]


def find_images(root: str | os.PathLike[str]) -> tuple[ListedFiles, list[Skip]]:
    """Files in a folder and the folders in it that look like images, sorted, and what else is there.

    Raises:
        SourceError: The folder cannot be read.
    """
    folder = os.path.realpath(root)
    table = FileTable()
    skipped = []
    for found in _walk(folder):
        if isinstance(found, Skip):
            skipped.append(found)
        else:
            table.add(*found)
    return table.sorted(Path(folder))[0], sorted(skipped)


def list_folder(root: str | os.PathLike[str], *, class_depth: int | None = None) -> Listing:
    """List the images of a folder and of the folders in it.

    A directory in which no file looks like an image is no class.

    Args:
        root: The folder; may itself be a link.
        class_depth: Number of leading directories that name the class; None for all of them.

    Raises:
        SourceError: The folder cannot be read, or holds no image in a class.
    """
    folder = os.path.realpath(root)
    table, classes = FileTable(), _Classes(folder, class_depth)
    skipped = []
    for found in _walk(folder):
        if isinstance(found, Skip):
            skipped.append(found)
        else:
            table.add(*found)
            classes.add(found.key)
    files, order = table.sorted(Path(folder))
    labels = classes.labels()[order]
    taken = labels >= 0
    skipped += [
        Skip(key, "not an image" if "/" in key else "not in a class folder")
        for key in files.keys.filter(~taken).to_pylist()
    ]
    if not taken.any():
        raise no_images(
            "the folder holds no image in a class folder",
            root,
            skipped,
            "expected is one folder a class: SOURCE/CLASS/IMAGE.jpg; for other forms give a CSV or JSON list "
            "of path and label",
        )
    files = files if taken.all() else files.take(np.flatnonzero(taken))
    return Listing(
        **vars(files),
        labels=pa.array(labels[taken]),
        classes=classes.names(),
        skipped=tuple(sorted(skipped)),
    )


class _Classes:
    """The class of each file, which the folder that holds it names."""

    def __init__(self, root: str, depth: int | None) -> None:
        self._root = root
        self._depth = depth
        self._numbers: dict[str, int] = {}
        self._number_of_file = array("q")
        self._with_image: set[str] = set()

    def add(self, key: str) -> None:
        """Add a file; whether it is an image is only asked until one of its class is."""
        name = "/".join(key.split("/")[:-1][: self._depth])
        self._number_of_file.append(self._numbers.setdefault(name, len(self._numbers)))
        if name and name not in self._with_image and looks_like_image(self._root, key):
            self._with_image.add(name)

    def names(self) -> tuple[str, ...]:
        """The folders that are classes, in sorted order."""
        return tuple(sorted(self._with_image))

    def labels(self) -> npt.NDArray[np.int64]:
        """(N,) label of each file, in the order in which they were added; -1 for what is in no class."""
        names = self.names()
        label_of = np.full(len(self._numbers), -1, np.int64)
        label_of[[self._numbers[name] for name in names]] = np.arange(len(names))
        return label_of[np.frombuffer(self._number_of_file, np.int64)]


class _File(NamedTuple):
    """A file: its path in the source, bytes, and time in nanoseconds since 1970."""

    key: str
    size: int
    modified: int


def _walk(root: str) -> Iterator[_File | Skip]:
    """What is in the folders under ``root``, which is resolved: files that look like images, and all else."""
    folders = [""]
    while folders:
        prefix = folders.pop()
        try:
            with os.scandir(os.path.join(root, prefix)) as entries:  # noqa: PTH118 - a path object a file costs more than reading it
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


def _look_at(entry: os.DirEntry[str], key: str, root: str) -> _File | Skip:
    try:
        if entry.is_symlink() and not is_inside(os.path.realpath(entry.path), root):
            return Skip(key, "link that leaves the source")
        status = entry.stat()
    except OSError as error:
        return Skip(key, "unreadable", error.strerror or "")
    if not is_regular(status):
        return Skip(key, "link to a folder" if entry.is_dir() else "not a regular file")
    # Spares a look into files that are most likely images.
    if not has_image_suffix(key) and not looks_like_image(root, key):
        return Skip(key, why_no_image(key))
    return _File(key, status.st_size, status.st_mtime_ns)


def may_be_image(skip: Skip) -> bool:
    """Whether a file that was left out may be an image, which a strict conversion does not do without.

    It is none if it is hidden, as what file managers and version control leave is, or if neither its name nor
    its content says that it is one.
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
