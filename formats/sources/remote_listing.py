"""Images on remote storage: a folder of them, or one folder a class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stoker.errors import SourceError

from ..files.paths import printable_name
from ..remote.store import Store
from .file_table import FileTable
from .listing import Listing, Skip
from .suffixes import has_image_suffix, why_no_image

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..remote.store import StoredFile
    from .listing import ListedFiles

__all__ = ["find_stored_images", "list_stored_folder"]


def find_stored_images(url: str, files: Iterable[StoredFile]) -> tuple[ListedFiles, list[Skip]]:
    """Those files of a folder at a URL that are images by their names, sorted, and what else is there.

    Names cost nothing, a look into a file does: content decides when the files are converted.
    """
    table = FileTable()
    skipped = []
    for file in files:
        if any(part.startswith(".") for part in file.name.split("/")):
            skipped.append(Skip(printable_name(file.name), "hidden"))
        elif not has_image_suffix(file.name):
            skipped.append(Skip(printable_name(file.name), why_no_image(file.name)))
        else:
            table.add(*file)
    return table.sorted(url)[0], sorted(skipped)


def list_stored_folder(url: str, class_depth: int | None = None) -> Listing:
    """List the images of a folder at a URL with one folder a class.

    Classes are named as by :func:`stoker.formats.sources.folder.list_folder`.

    Args:
        url: The folder, such as ``s3://bucket/photos``.
        class_depth: Number of leading folders that name the class; None for all of them.

    Raises:
        SourceError: There is no image.
        StorageError: The storage cannot be listed.
    """
    store = Store(url)
    files, skipped = find_stored_images(store.url, store.files())
    in_class = np.array(["/" in key for key in files.names()], bool)
    skipped += [Skip(key, "not in a class folder") for key in files.keys.filter(~in_class).to_pylist()]
    files = files.take(np.flatnonzero(in_class))
    if not len(files):
        raise SourceError(
            "there is no image in a class folder",
            path=url,
            hint="expected is one folder a class: URL/CLASS/IMAGE.jpg",
        )
    names = ["/".join(key.split("/")[:-1][:class_depth]) for key in files.names()]
    classes = sorted(set(names))
    label_of = {name: label for label, name in enumerate(classes)}
    return Listing(
        **vars(files),
        labels=pa.array([label_of[name] for name in names], pa.int64()),
        classes=tuple(classes),
        skipped=tuple(sorted(skipped)),
    )
