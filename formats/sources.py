"""Which form a source of images has, and how it is listed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from stoker.errors import ConfigError, SourceError
from stoker.formats.coco import list_coco
from stoker.formats.filelist import list_file
from stoker.formats.files import open_regular, read_at
from stoker.formats.folder import list_folder
from stoker.formats.mask_pairs import list_images, with_masks
from stoker.formats.options import SourceFormat
from stoker.formats.remote.listing import HEAD_BYTES, find_remote_format, is_object_head, list_remote
from stoker.formats.remote.store import is_url
from stoker.formats.voc import is_voc, list_voc
from stoker.formats.yolo import is_yolo, list_yolo

if TYPE_CHECKING:
    from stoker.formats.listing import Listing

__all__ = ["find_format", "list_source"]


def find_format(
    src: str | os.PathLike[str], asked: str | None = None, masks: str | os.PathLike[str] | None = None
) -> SourceFormat:
    """The form of a source: as asked for, or by looking at it.

    A folder with ``Annotations/*.xml``, and a list in its ImageSets, is Pascal VOC's; one with ``images`` and
    ``labels/*.txt`` YOLO's; any other folder is one of classes, or, with masks, of pairs. A JSON object is
    COCO's, and any other file a list. A URL is told by its name, and a JSON there by its first bytes.

    Raises:
        ConfigError: There is no such form.
        StorageError: A URL cannot be read.
    """
    if asked is not None:
        if asked not in get_args(SourceFormat):
            forms = ", ".join(get_args(SourceFormat))
            raise ConfigError(f"source_format must be one of {forms}, not {asked!r}")
        return cast("SourceFormat", asked)
    if is_url(src):
        return find_remote_format(os.fspath(src))
    path = Path(src)
    if is_voc(path):
        return "voc"
    if not path.is_dir():
        return "coco" if path.suffix.lower() == ".json" and _is_object(path) else "list"
    if is_yolo(path):
        return "yolo"
    return "folder" if masks is None else "pairs"


def _is_object(path: Path) -> bool:
    try:
        with open_regular(path) as (descriptor, _):
            return is_object_head(read_at(descriptor, 0, HEAD_BYTES))
    except OSError:
        return False


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
        src: The source, or its URL: of a list, a COCO JSON, or a folder of classes.
        kind: Its form.
        images: Folder of the images, of COCO alone; may be a URL.
        masks: Folder of the images' masks.
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
    if is_url(src):
        return list_remote(os.fspath(src), kind, images=images, masks=masks, class_depth=class_depth)
    try:
        Path(src).stat()
    except OSError as error:
        raise SourceError(f"the source cannot be read: {error.strerror}", path=src) from error
    if kind == "pairs" and masks is None:
        raise ConfigError("pairs of images and masks need the folder of the masks", hint="--masks DIR")
    if kind == "folder":
        listing = list_folder(src, class_depth=class_depth)
    elif kind == "coco":
        listing = list_coco(src, images)
    else:
        listing = {"list": list_file, "voc": list_voc, "yolo": list_yolo, "pairs": list_images}[kind](src)
    return listing if masks is None else with_masks(listing, masks, ignore_index)
