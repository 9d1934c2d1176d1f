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
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stoker.errors import SourceError
from stoker.formats.intake import looks_like_image
from stoker.formats.listing import Listing, Skip, inside, is_regular, printable

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
    by_class: dict[str, list[File]] = {}
    for file in walk.files:
        folders = file.key.split("/")[:-1]
        by_class.setdefault("/".join(folders[:class_depth]), []).append(file)
    classes = sorted(name for name, files in by_class.items() if name and walk.has_image(files))
    label_of = {name: label for label, name in enumerate(classes)}
    rows = []
    for name, files in by_class.items():
        if name in label_of:
            rows += [(*file, label_of[name]) for file in files]
        else:
            reason = "not an image" if name else "not in a class folder"
            walk.skipped += [Skip(file.key, reason) for file in files]
    if not rows:
        raise SourceError(
            "the folder holds no image in a class folder",
            path=root,
            hint="expected is one folder a class: SOURCE/CLASS/IMAGE.jpg; for other forms give a CSV or "
            "JSON list of path and label",
        )
    rows.sort()
    keys, sizes, modified, labels = zip(*rows, strict=True)
    return Listing(
        root=Path(walk.root),
        keys=pa.array(keys, pa.large_string()),
        sizes=np.array(sizes, np.int64),
        modified=np.array(modified, np.int64),
        labels=pa.array(labels, pa.int64()),
        classes=tuple(classes),
        skipped=tuple(sorted(walk.skipped)),
    )


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
        elif not _has_image_suffix(entry.name) and not self._is_image(key):
            self.skipped.append(Skip(key, "not an image"))
        else:
            self.files.append(File(key, status.st_size, status.st_mtime_ns))

    def has_image(self, files: list[File]) -> bool:
        """Whether one of the files at least is an image, by its first bytes."""
        return any(self._is_image(file.key) for file in files)

    def _is_image(self, key: str) -> bool:
        return looks_like_image(self.root, key)


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
