"""An image folder as a source: one class a directory.

The class of an image is the directory that holds it, named by its path in the source
(``animals/cat``); ``class_depth=1`` takes the first directory alone, as torchvision's ImageFolder
does. Links are followed to plain files that lie within the source and nowhere else, so the walk
neither leaves the source nor loops; what has a name that starts with a dot is hidden.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from stoker.errors import SourceError
from stoker.formats.intake import looks_like_image
from stoker.formats.listing import Listing, Skip, inside, is_regular, printable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["File", "find_images", "list_folder"]

# Only a hint: it spares the walk a look into files that are most likely images. Whether they are is
# decided by their content when they are converted.
_IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})


class File(NamedTuple):
    """A file: its path in the source, bytes, and time in nanoseconds since 1970."""

    key: str
    size: int
    modified: int


def find_images(root: str | os.PathLike[str]) -> tuple[list[File], list[Skip]]:
    """Files in a folder and the folders in it that look like images, sorted, and what else is there.

    Raises:
        SourceError: The folder cannot be read.
    """
    walk = _Walk(os.path.realpath(root))
    walk.run()
    return sorted(walk.files), sorted(walk.skipped)


def list_folder(root: str | os.PathLike[str], *, class_depth: int | None = None) -> Listing:
    """List the images of a folder and of the folders in it.

    A directory in which no file looks like an image is no class.

    Args:
        root: The folder; may itself be a link.
        class_depth: Number of leading directories that name the class; None for all of them.

    Raises:
        SourceError: The folder cannot be read, or holds no image in a class.
    """
    walk = _Walk(os.path.realpath(root))
    walk.run()
    walk.files.sort()

    def class_of(file: File) -> str:
        return "/".join(file.key.split("/")[:-1][:class_depth])

    classes = _classes(walk, class_of)
    label_of = {name: label for label, name in enumerate(classes)}
    files = []
    for file in walk.files:
        if (name := class_of(file)) in label_of:
            files.append(file)
        else:
            walk.skipped.append(Skip(file.key, "not an image" if name else "not in a class folder"))
    if not files:
        raise SourceError(
            "the folder holds no image in a class folder",
            path=root,
            hint="expected is one folder a class: SOURCE/CLASS/IMAGE.jpg; for other forms give a CSV or "
            "JSON list of path and label",
        )
    labels = np.fromiter((label_of[class_of(file)] for file in files), np.int64, len(files))
    return Listing(
        root=Path(walk.root),
        # Column by column from the one list: of millions of files a second copy is gigabytes.
        keys=pa.array((file.key for file in files), pa.large_string(), size=len(files)),
        sizes=np.fromiter((file.size for file in files), np.int64, len(files)),
        modified=np.fromiter((file.modified for file in files), np.int64, len(files)),
        labels=pa.array(labels),
        classes=tuple(classes),
        skipped=tuple(sorted(walk.skipped)),
    )


def _classes(walk: _Walk, class_of: Callable[[File], str]) -> list[str]:
    """Names of the classes in which one file at least is an image, by its first bytes."""
    found: set[str] = set()
    for file in walk.files:
        name = class_of(file)
        if name and name not in found and looks_like_image(walk.root, file.key):
            found.add(name)
    return sorted(found)


@dataclass
class _Walk:
    """A walk through the folders under ``root``, which is resolved."""

    root: str
    files: list[File] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)

    def run(self) -> None:
        """Fill ``files`` and ``skipped``."""
        folders = [""]
        while folders:
            prefix = folders.pop()
            try:
                with os.scandir(os.path.join(self.root, prefix)) as entries:  # noqa: PTH118 - a path object a file costs more than reading it
                    for entry in entries:
                        self._visit(entry, prefix, folders)
            except OSError as error:
                if not prefix:
                    raise SourceError(
                        f"the folder cannot be read: {error.strerror}", path=self.root
                    ) from error
                self.skipped.append(Skip(prefix, "unreadable", error.strerror or ""))

    def _visit(self, entry: os.DirEntry[str], prefix: str, folders: list[str]) -> None:
        name = entry.name
        key = f"{prefix}/{name}" if prefix else name
        if not _is_utf8(name):
            self.skipped.append(Skip(printable(key), "name is not UTF-8"))
        elif name.startswith("."):
            self.skipped.append(Skip(key, "hidden"))
        elif entry.is_dir(follow_symlinks=False):
            folders.append(key)
        else:
            self._visit_file(entry, key)

    def _visit_file(self, entry: os.DirEntry[str], key: str) -> None:
        try:
            if entry.is_symlink() and not inside(os.path.realpath(entry.path), self.root):
                self.skipped.append(Skip(key, "link that leaves the source"))
                return
            status = entry.stat()
        except OSError as error:
            self.skipped.append(Skip(key, "unreadable", error.strerror or ""))
            return
        if not is_regular(status):
            reason = "link to a folder" if entry.is_dir() else "not a regular file"
            self.skipped.append(Skip(key, reason))
        elif not _has_image_suffix(entry.name) and not looks_like_image(self.root, key):
            self.skipped.append(Skip(key, "not an image"))
        else:
            self.files.append(File(key, status.st_size, status.st_mtime_ns))


def _has_image_suffix(name: str) -> bool:
    return name[name.rfind(".") :].lower() in _IMAGE_SUFFIXES


def _is_utf8(name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
