"""Sources on remote storage: a folder with one class a folder, a list of images, or a COCO JSON."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stoker.errors import ConfigError, SourceError
from stoker.formats.listing import Listing, Skip, printable
from stoker.formats.remote.copies import local_copies
from stoker.formats.remote.store import Store

if TYPE_CHECKING:
    import os

    from stoker.formats.options import SourceFormat
    from stoker.formats.remote.store import StoredFile

__all__ = ["HEAD_BYTES", "find_remote_format", "is_object_head", "list_remote"]

HEAD_BYTES = 4096
_WHAT_TO_DO = "copy it here first; from a URL come folders of classes, lists of images, and COCO's JSON"
# A list of bytes costs nothing, a look into a file does: here names decide what is tried, and content,
# when the files are converted, what is taken.
_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".jp2")


def is_object_head(head: bytes) -> bool:
    """Whether a JSON file that begins with these bytes holds an object, as COCO's do."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def find_remote_format(url: str) -> SourceFormat:
    """The form of a source at a URL, by its name, and of a JSON by its first bytes.

    Raises:
        StorageError: The JSON cannot be read.
    """
    folder, _, name = url.rpartition("/")
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == ".json":
        head = Store(folder).read_if_there(name, most=HEAD_BYTES)
        return "coco" if head and is_object_head(head) else "list"
    return "list" if suffix in (".csv", ".jsonl") else "folder"


def list_remote(
    url: str,
    kind: SourceFormat = "folder",
    *,
    images: str | os.PathLike[str] | None = None,
    masks: str | os.PathLike[str] | None = None,
    class_depth: int | None = None,
) -> Listing:
    """List the images of a source at a URL.

    Args:
        url: A folder of classes, such as ``s3://bucket/photos``, a list of images, or a COCO JSON.
        kind: Which of these it is.
        images: Folder of the images of a COCO JSON, or its URL; by default that of the JSON.
        masks: Refused: a URL has none.
        class_depth: Number of leading folders that name the class; None for all of them.

    Raises:
        ConfigError: Sources of that form must be here.
        SourceError: There is no image, or the list cannot be understood.
        StorageError: The storage cannot be listed, or the list not be read.
    """
    if masks is not None or kind in ("voc", "yolo", "pairs"):
        raise ConfigError(
            f"a source of the form {kind if masks is None else 'pairs'} must be in a local folder",
            path=url,
            hint=_WHAT_TO_DO,
        )
    if kind == "folder":
        return _list_folder(url, class_depth)
    from stoker.formats.coco import list_coco
    from stoker.formats.filelist import list_file

    folder = url.rpartition("/")[0]
    with local_copies([url]) as (copy,):
        return list_coco(copy, images or folder) if kind == "coco" else list_file(copy, folder)


def _list_folder(url: str, class_depth: int | None) -> Listing:
    """List the images of a folder at a URL, and of the folders in it.

    A file is taken for an image by its name; one that turns out to be none is skipped when it is
    converted. Classes are named as by :func:`stoker.formats.folder.list_folder`.
    """
    store = Store(url)
    files = store.files()
    _check_form(url, [file.name for file in files])
    taken: list[tuple[StoredFile, str]] = []
    skipped: list[Skip] = []
    for file in files:
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


def _check_form(url: str, names: list[str]) -> None:
    """Refuse a folder whose folders are no classes, but images and what is known of them."""
    forms = {"Pascal VOC": ("Annotations/", ".xml"), "YOLO": ("labels/", ".txt")}
    for form, (folder, suffix) in forms.items():
        if any(name.startswith(folder) and name.endswith(suffix) for name in names):
            raise SourceError(
                f"the source has the form of {form}, which must be in a local folder",
                path=url,
                hint=_WHAT_TO_DO,
            )


def _refusal(name: str) -> str:
    """Why a file is left out, or nothing."""
    parts = name.split("/")
    if any(part.startswith(".") for part in parts):
        return "hidden"
    if not name.lower().endswith(_IMAGE_SUFFIXES):
        return "not an image"
    return "" if len(parts) > 1 else "not in a class folder"
