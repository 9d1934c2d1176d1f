"""Open Images as a source: a CSV of boxes, such as ``train-annotations-bbox.csv``, or of segmentations.

A row has an image's id, a class such as ``/m/011k07``, a box in shares of the image, and flags of the object
(https://storage.googleapis.com/openimages/web/factsfigures_v7.html). The names of the classes are in a CSV
``*class-descriptions*.csv`` beside it. A box of a group is a crowd.

A row of segmentations, as in ``train-annotations-object-segmentation.csv``, names the file of the object's
mask, of any size and white where the object is. It is stretched to the size of its image, each pixel taking
the nearest value, and becomes run lengths.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, SourceError
from stoker.urls import is_url, split_url

from ..codecs.codec import MAX_PIXELS
from ..dataset.annotations import runs_of_mask
from ..remote.store import local_copies
from ..threads import available_cores, thread_map
from .detection import BOX_COLUMNS, MASK_COLUMNS, SIDES
from .image_files import SkippedError, check_image, find_files, read_source_file, resolve
from .listing import ListedFiles, Listing
from .masks import AHEAD, read_mask
from .objects import AnnotatedImages
from .source import Source, SourceFolder

_IMAGE, _LABEL, _MASK = "ImageID", "LabelName", "MaskPath"
_GROUP = "IsGroupOf"
_FLAGS = {
    "occluded": "IsOccluded",
    "truncated": "IsTruncated",
    "depiction": "IsDepiction",
    "inside": "IsInside",
}

Runs = npt.NDArray[np.uint32]


class _Object(NamedTuple):
    """A row of the CSV."""

    path: str  # Path of its image
    mask: str  # Name of the file of its mask; empty in a CSV of boxes
    line: int  # Its line in the CSV
    values: dict[str, Any]  # Box in shares of the image, and other arguments of AnnotatedImages.add


def list_open_images(source: Source) -> Listing:
    """List the images of a CSV of Open Images that are in the folder of images, with their objects."""
    # The masks of a CSV of segmentations are in the folder ``instances``. An image is ``ID.jpg`` in the
    # folder of images, by default the folder of the CSV. Classes are in sorted order of their names.
    name = split_url(source.path)[1]
    images = AnnotatedImages(name, f"line {{}} of {name}", relative=True)
    names = _descriptions(source.open(source.folder_of_file))
    root, instances = resolve(source.options.images or source.folder_of_file), source.options.instances
    follow_links = source.options.follow_links
    with local_copies([source.path]) as (file,), file.open(encoding="utf-8-sig", newline="") as text:
        try:
            objects = _objects(images, text, file, names, has_masks=instances is not None)
            if instances is None:
                for row in objects:
                    images.add(row.path, id=row.line, **row.values)
            else:
                _add_with_masks(images, objects, root, source.open(instances), follow_links=follow_links)
        except (csv.Error, UnicodeDecodeError) as error:
            raise SourceError(f"the CSV cannot be read: {error}", path=source.path) from error
    hint = "Name the folder of the images with images."
    return images.listing(root, follow_links=follow_links, hint=hint)


def _descriptions(folder: SourceFolder) -> dict[str, str]:
    """Names of the classes by their ids, from the CSV beside the boxes; empty without one."""
    if is_url(folder.root):
        found = [name for name in folder.names(".csv") if "class-descriptions" in name]
    else:  # beside the CSV alone: the folder may hold millions of images
        found = sorted(file.name for file in Path(folder.root).glob("*class-descriptions*.csv"))
    rows = csv.reader((folder.lines(found[0]) if found else None) or [])
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[0] != _LABEL}


def _objects(
    images: AnnotatedImages, text: Iterable[str], file: Path, names: Mapping[str, str], *, has_masks: bool
) -> Iterator[_Object]:
    """The objects of a CSV; other lines become skips of ``images``."""
    reader = csv.reader(text)
    columns = next(reader, [])
    header = {name: at for at, name in enumerate(columns)}
    _check_header(header.keys(), file, has_masks=has_masks)
    image_at, label_at, group_at = header[_IMAGE], header[_LABEL], header.get(_GROUP)
    sides = [header[f"Box{side}" if has_masks else side] for side in SIDES]
    flags = {flag: header[column] for flag, column in _FLAGS.items() if column in header}
    for row in reader:
        where = f"line {reader.line_num} of {images.file}"
        if len(row) < len(columns):
            images.skip(images.file, "line that is no object", where)
            continue
        image, label = row[image_at].strip(), row[label_at].strip()
        if not image or not label:
            reason = "object of an unknown category" if image else "object of an unknown image"
            images.skip(f"{image}.jpg" if image else images.file, reason, where)
            continue
        left, top, right, bottom = (_number(row[at]) for at in sides)
        values = {
            "box": (left, top, right, bottom),
            "label": names.get(label, label),
            "crowd": group_at is not None and row[group_at] == "1",
            "extra": {flag: int(row[at] == "1") for flag, at in flags.items()},
        }
        mask = row[header[_MASK]].strip() if has_masks else ""
        yield _Object(f"{image}.jpg", mask, reader.line_num, values)


def _check_header(header: Collection[str], file: Path, *, has_masks: bool) -> None:
    """Raise an error if the CSV lacks a column, or has masks that are not asked for."""
    missing = (MASK_COLUMNS if has_masks else BOX_COLUMNS).difference(header)
    if has_masks and _MASK in missing:
        raise ConfigError(
            "the CSV names no instance masks",
            path=file,
            hint="Leave instances out, or convert ...-annotations-object-segmentation.csv.",
        )
    if not has_masks and not MASK_COLUMNS.difference(header):
        raise ConfigError(
            "the CSV names instance masks, and the folder of the masks is not given",
            path=file,
            hint="Name the folder with instances.",
        )
    if missing:
        raise SourceError(
            f"the CSV has no column {', '.join(sorted(missing))}",
            path=file,
            hint=f"Boxes of Open Images have the columns {', '.join(sorted(BOX_COLUMNS))}.",
        )


def _number(text: str) -> float:
    """The number in a cell; NaN for other text, which makes the box invalid."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _add_with_masks(
    images: AnnotatedImages, rows: Iterable[_Object], root: str, masks: SourceFolder, *, follow_links: bool
) -> None:
    """Add objects with their masks, which are all read; an object without one is a skip."""
    by_image: dict[str, list[_Object]] = {}
    for row in rows:
        by_image.setdefault(row.path, []).append(row)
        images.image(row.path)
    mask_files = masks.images()[0]
    number_of = {name.rpartition("/")[2]: number for number, name in enumerate(mask_files.names())}
    found = find_files(root, by_image, follow_links=follow_links)[0]  # the conversion names missing images
    paths = list(by_image)
    sizes = zip((paths[entry] for entry in found.entries), found.files.sizes.tolist(), strict=True)

    def read(image: tuple[str, int]) -> tuple[tuple[int, int], list[Runs | tuple[str, str]]] | None:
        """Size of an image, and for each of its objects run lengths or the reason for none."""
        path, size = image
        try:
            data = read_source_file(root, path, size, follow_links=follow_links)
            header = check_image(data, MAX_PIXELS)
        except SkippedError:  # the conversion reports it
            return None
        shape = (header.height, header.width)
        return shape, list(map(partial(_runs, mask_files, number_of, shape), by_image[path]))

    cores = available_cores()
    for (path, _), image in thread_map(read, sizes, "masks", cores, cores + AHEAD):
        if image is None:
            continue
        images.sizes[images.image(path)], outcomes = image
        for row, outcome in zip(by_image[path], outcomes, strict=True):
            if isinstance(outcome, tuple):
                reason, detail = outcome
                images.skip(path, reason, f"line {row.line} of {images.file}: {detail}")
            else:
                area = float(outcome[1::2].sum() / outcome.sum())
                images.add(path, id=row.line, **row.values, runs=outcome, area=area)


def _runs(
    masks: ListedFiles, number_of: Mapping[str, int], shape: tuple[int, int], row: _Object
) -> Runs | tuple[str, str]:
    """Run lengths of the mask of an object in an image of this height and width; or reason and detail."""
    number = number_of.get(row.mask.rpartition("/")[2])
    if number is None:
        return "object whose mask is missing", row.mask
    try:
        values = read_mask(masks, number)
    except SkippedError as error:
        return "object whose mask is left out", ": ".join(filter(None, error.args))
    # The nearest pixel of the mask for each row and column of the image.
    nearest = (((2 * np.arange(to) + 1) * of) // (2 * to) for to, of in zip(shape, values.shape, strict=True))
    mask = values[np.ix_(*nearest)] > 0
    return runs_of_mask(mask) if mask.any() else ("object whose mask is empty", row.mask)
