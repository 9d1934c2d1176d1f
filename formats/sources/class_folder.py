"""A folder with one folder for each class, as a source.

The class of an image is the folder that holds it, named by its path in the source (``animals/cat``);
``class_depth=1`` takes the first folder alone, as torchvision's ImageFolder does.
"""

from __future__ import annotations

import os
from array import array
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.urls import is_url

from ..dataset.columns import number_array, take_strings
from ..remote.store import Store
from .classes import number_names
from .image_files import FileTable, SkippedFolder, find_remote_images, has_image_suffix, walk_images
from .listing import Listing, Skip, no_images_error
from .source import Source
from .source_reader import looks_like_image


def list_folder(source: Source) -> Listing:
    """List a folder with one folder for each class, on a disk or at a URL."""
    if source.options.unlabelled:
        return list_unlabelled(source)
    return _list_remote(source) if is_url(source.path) else _list_local(source)


def list_unlabelled(source: Source) -> Listing:
    """List all images of a folder and of the folders in it, as samples without labels."""
    files, skipped = source.folder.images()
    if not len(files):
        raise no_images_error("the folder holds no image", source.folder.root, skipped)
    return Listing(**vars(files), labels=None, classes=(), skipped=tuple(skipped))


def _list_remote(source: Source) -> Listing:
    store = Store(source.path)
    files, skipped = find_remote_images(store.url, store.files())
    in_class = np.array(["/" in key for key in files.names()], bool)
    skipped += [Skip(key, "not in a class folder") for key in files.keys.filter(~in_class).to_pylist()]
    files = files.take(np.flatnonzero(in_class))
    if not len(files):
        hint = "Give a folder with one folder for each class: URL/CLASS/IMAGE.jpg."
        raise no_images_error("there is no image in a class folder", os.fspath(source.path), skipped, hint)
    names = (_class_of(key, source.options.class_depth) for key in files.names())
    labels, classes = number_names(pa.array(names, pa.large_string()))
    skips = tuple(sorted(skipped))
    return Listing(**vars(files), labels=pa.array(labels), classes=classes, skipped=skips)


def _class_of(key: str, depth: int | None) -> str:
    return "/".join(key.split("/")[:-1][:depth])


def _list_local(source: Source) -> Listing:
    """List a folder on a disk."""
    # A folder in which no file looks like an image is not a class. It is a missing class if it is empty, is
    # left out as a whole, or has files with the names of images.
    folder, follow_links = os.path.realpath(source.path), source.options.follow_links
    table, classes = FileTable(), _Classes(folder, source.options.class_depth, follow_links)
    skipped: list[Skip] = []
    for entry in walk_images(folder, follow_links=follow_links):
        if isinstance(entry, Skip):
            skipped.append(entry)
        elif isinstance(entry, SkippedFolder):
            skipped += entry.skips
            classes.add_skipped(entry.skip)
        else:
            table.add(*entry)
            classes.add(entry.key)
    files, order = table.sorted(Path(folder), follow_links=follow_links)
    labels = classes.labels(order)
    has_class = labels >= 0
    left_out = np.flatnonzero(~has_class)
    if len(left_out):  # taking none of a million names takes 20 MB
        skipped += [
            Skip(key, "not an image" if "/" in key else "not in a class folder")
            for key in take_strings(files.keys, left_out).to_pylist()
        ]
    if not has_class.any():
        raise no_images_error(
            "the folder holds no image in a class folder",
            source.path,
            skipped,
            "Give a folder with one folder for each class: SOURCE/CLASS/IMAGE.jpg; or a CSV or JSON list of "
            "path and label.",
        )
    if len(left_out):
        files, labels = files.take(np.flatnonzero(has_class)), labels[has_class]
    return Listing(
        **vars(files),
        labels=number_array(labels),
        classes=classes.names(),
        skipped=tuple(sorted(skipped)),
        missing_classes=classes.missing(),
    )


class _Classes:
    """Collects the class of each file, which is named by the folder that holds the file."""

    def __init__(self, root: str, depth: int | None, follow_links: bool) -> None:
        self._root = root
        self._depth = depth
        self._follow_links = follow_links
        self._skipped: dict[str, Skip] = {}
        self._numbers: dict[str, int] = {}
        self._number_of_file = array("i")
        self._with_image: set[str] = set()

    def add(self, key: str) -> None:
        """Add a file; files of a class are opened only until one is found to be an image."""
        name = _class_of(key, self._depth)
        self._number_of_file.append(self._numbers.setdefault(name, len(self._numbers)))
        if not name or name in self._with_image:
            return
        if looks_like_image(self._root, key, follow_links=self._follow_links):
            self._with_image.add(name)
        elif has_image_suffix(key):
            self._skipped.setdefault(name, Skip(name, "no file in it is an image"))

    def add_skipped(self, folder: Skip) -> None:
        """Add a folder that was left out or is empty."""
        name = "/".join(folder.key.split("/")[: self._depth])
        self._skipped.setdefault(name, Skip(name, folder.reason, folder.detail))

    def missing(self) -> tuple[Skip, ...]:
        """The folders that would be classes, but have no image."""
        return tuple(sorted(skip for name, skip in self._skipped.items() if name not in self._with_image))

    def names(self) -> tuple[str, ...]:
        """The folders that are classes, in sorted order."""
        return tuple(sorted(self._with_image))

    def labels(self, order: npt.NDArray[np.int64] | slice) -> npt.NDArray[np.int64]:
        """(N,) label of each file, -1 for files in no class; ``order`` numbers them as they were added."""
        names = self.names()
        label_of = np.full(len(self._numbers), -1, np.int64)
        label_of[[self._numbers[name] for name in names]] = np.arange(len(names))
        return label_of[np.frombuffer(self._number_of_file, np.int32)[order]]
