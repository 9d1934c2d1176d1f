"""An image folder on remote storage as a source: one class a folder, as in a local one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stoker.errors import SourceError
from stoker.formats.listing import Listing, Skip, printable
from stoker.formats.remote.store import Store

if TYPE_CHECKING:
    from stoker.formats.remote.store import StoredFile

__all__ = ["list_remote"]

_LISTS = (".csv", ".json", ".jsonl")
# A list of bytes costs nothing, a look into a file does: here names decide what is tried, and content,
# when the files are converted, what is taken.
_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".jp2")


def list_remote(url: str, *, class_depth: int | None = None) -> Listing:
    """List the images of a folder at a URL, and of the folders in it.

    A file is taken for an image by its name; one that turns out to be none is skipped when it is
    converted. Classes are named as by :func:`stoker.formats.folder.list_folder`.

    Args:
        url: The folder, such as ``s3://bucket/photos``.
        class_depth: Number of leading folders that name the class; None for all of them.

    Raises:
        SourceError: There is no image in a class folder.
        StorageError: The storage cannot be listed.
    """
    if url.endswith(_LISTS):
        raise SourceError(
            "a list of images must be a local file", path=url, hint="copy it here, beside its images"
        )
    store = Store(url)
    taken: list[tuple[StoredFile, str]] = []
    skipped: list[Skip] = []
    for file in store.files():
        reason = _refusal(file.name)
        if reason:
            skipped.append(Skip(printable(file.name), reason))
        else:
            taken.append((file, "/".join(file.name.split("/")[:-1][:class_depth])))
    if not taken:
        raise SourceError(
            "there is no image in a class folder",
            path=url,
            hint="expected is one folder a class: URL/CLASS/IMAGE.jpg",
        )
    classes = sorted({name for _, name in taken})
    label_of = {name: label for label, name in enumerate(classes)}
    return Listing(
        root=store.url,
        keys=pa.array([file.name for file, _ in taken], pa.large_string()),
        sizes=np.array([file.size for file, _ in taken], np.int64),
        modified=np.array([file.modified for file, _ in taken], np.int64),
        labels=pa.array([label_of[name] for _, name in taken], pa.int64()),
        classes=tuple(classes),
        skipped=tuple(sorted(skipped)),
    )


def _refusal(name: str) -> str:
    """Why a file is left out, or nothing."""
    parts = name.split("/")
    if any(part.startswith(".") for part in parts):
        return "hidden"
    if not name.lower().endswith(_IMAGE_SUFFIXES):
        return "not an image"
    return "" if len(parts) > 1 else "not in a class folder"
