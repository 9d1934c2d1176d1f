"""Which form a source of images has, and how it is listed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast, get_args

from stoker.errors import ConfigError, SourceError, StokerError

from ..conversion.options import SourceFormat
from ..files.reading import open_regular, read_at
from ..remote.copies import local_copies
from ..remote.store import Store, is_url
from .annotated.coco import list_coco
from .annotated.mask_pairs import list_images, with_masks
from .annotated.voc import is_voc, list_voc
from .annotated.yolo import is_yolo, list_yolo
from .folder import list_folder
from .lists.file_list import list_file
from .remote_listing import list_stored_folder

if TYPE_CHECKING:
    from .listing import Listing

__all__ = ["find_format", "list_source"]

_HEAD_BYTES = 4096


def find_format(
    src: str | os.PathLike[str], asked: str | None = None, masks: str | os.PathLike[str] | None = None
) -> SourceFormat:
    """The form of a source, on a disk or at a URL: as asked for, or by looking at it.

    A folder with ``Annotations/*.xml``, and a list in its ImageSets, is Pascal VOC's; one with ``images`` and
    ``labels/*.txt`` YOLO's; any other folder is one of classes, or, with masks, of pairs. A JSON object is
    COCO's, and any other file a list; at a URL, files are told by their names.

    Raises:
        ConfigError: There is no such form.
        SourceError: A folder cannot be read.
        StorageError: A URL cannot be read.
    """
    if asked is not None:
        if asked not in get_args(SourceFormat):
            forms = ", ".join(get_args(SourceFormat))
            raise ConfigError(f"source_format must be one of {forms}, not {asked!r}")
        return cast("SourceFormat", asked)
    try:
        return _look(src, masks)
    except StokerError:
        raise
    except OSError as error:
        raise SourceError(f"the source cannot be read: {error.strerror}", path=src) from error


def _look(src: str | os.PathLike[str], masks: str | os.PathLike[str] | None) -> SourceFormat:
    suffix = PurePosixPath(src).suffix.lower()
    is_named_list = suffix in (".csv", ".json", ".jsonl")
    if not is_named_list and is_voc(src):
        return "voc"
    if is_named_list if is_url(src) else not Path(src).is_dir():
        return "coco" if suffix == ".json" and _is_object(src) else "list"
    if is_yolo(src):
        return "yolo"
    return "folder" if masks is None else "pairs"


def _is_object(file: str | os.PathLike[str]) -> bool:
    """Whether a JSON file holds an object, as COCO's do."""
    head = b""
    if is_url(file):
        folder, _, name = os.fspath(file).rpartition("/")
        head = Store(folder).read_if_there(name, most=_HEAD_BYTES) or b""
    else:
        with suppress(OSError), open_regular(file) as (descriptor, _):
            head = read_at(descriptor, 0, _HEAD_BYTES)
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def list_source(
    src: str | os.PathLike[str],
    kind: SourceFormat,
    *,
    images: str | os.PathLike[str] | None = None,
    masks: str | os.PathLike[str] | None = None,
    ignore_index: int | None = 255,
    class_depth: int | None = None,
) -> Listing:
    """List the images of a source, with all that it says of them.

    Args:
        src: The source, or its URL.
        kind: Its form.
        images: Folder of the images, or its URL, of COCO alone.
        masks: Folder of the images' masks, or its URL.
        ignore_index: Value in masks of what belongs to no class; None if there is none.
        class_depth: Number of leading folders that name the class, of a folder of classes alone.

    Raises:
        ConfigError: Options that do not go together.
        SourceError: The source is not of that form, or holds no image.
        StorageError: A URL cannot be read.
    """
    if class_depth is not None and kind != "folder":
        raise ConfigError("class_depth is for folders of classes; other sources name their labels themselves")
    if images is not None and kind != "coco":
        raise ConfigError(f"images is for COCO; the source is of the form {kind}")
    if not is_url(src):
        try:
            Path(src).stat()
        except OSError as error:
            raise SourceError(f"the source cannot be read: {error.strerror}", path=src) from error
    if kind == "pairs" and masks is None:
        raise ConfigError("pairs of images and masks need the folder of the masks", hint="--masks DIR")
    if kind in ("list", "coco"):
        listing = _list_file(src, kind, images)
    elif kind == "folder":
        list_classes = list_stored_folder if is_url(src) else list_folder
        listing = list_classes(os.fspath(src), class_depth=class_depth)
    else:
        listing = {"voc": list_voc, "yolo": list_yolo, "pairs": list_images}[kind](src)
    return listing if masks is None else with_masks(listing, masks, ignore_index)


def _list_file(
    src: str | os.PathLike[str], kind: SourceFormat, images: str | os.PathLike[str] | None
) -> Listing:
    """List what a file names, which is copied here first where it is at a URL."""
    folder = os.fspath(src).rpartition("/")[0] if is_url(src) else None
    with local_copies([src]) as (file,):
        return list_coco(file, images or folder) if kind == "coco" else list_file(file, folder)
