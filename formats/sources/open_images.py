"""The images and boxes that a source names line by line, collected for its listing."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, SourceError
from stoker.urls import is_url

from ..codecs.codec import MAX_PIXELS
from ..dataset.annotations import runs_of_mask
from ..remote.store import local_copies
from ..threads import available_cores, thread_map
from .file_list import find_files, resolve
from .listing import Listing, Skip
from .mask_pairs import read_mask
from .objects import BadObjectError, ObjectTable, checked_box
from .source import Source, SourceFolder
from .source_reader import SkippedError, check_image, read_source_file

Box = tuple[float, float, float, float]


@dataclass
class BoxImages:
    """The images and boxes of a source."""

    file: str  # Name of the file with the boxes, for messages
    name: str  # Name of an object in messages, where ``{}`` stands for its id
    # Number of each image, by its path in the folder of images
    number_of: dict[str, int] = field(default_factory=dict)
    # Height and width of each image that the source states, by number
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    label_of: dict[str, int] = field(default_factory=dict)  # Number of each class, by name
    table: ObjectTable = field(default_factory=ObjectTable)  # The objects
    skipped: list[Skip] = field(default_factory=list)  # Images and objects that were left out

    def image(self, path: str) -> int:
        """The number of the image with this path."""
        return self.number_of.setdefault(path, len(self.number_of))

    def of(self, id: int) -> str:  # noqa: A002 - COCO's word for it
        """Name of an object in messages."""
        return self.name.replace("{}", str(id), 1)

    def skip(self, path: str, reason: str, detail: str) -> None:
        """Note an object or a line that is left out."""
        self.skipped.append(Skip(path, reason, detail))

    def add(
        self,
        path: str,
        box: Box,
        label: str,
        id: int,  # noqa: A002 - COCO's word for it
        *,
        crowd: bool = False,
        extra: Mapping[str, int] | None = None,
        runs: npt.NDArray[np.uint32] | None = None,
        area: float | None = None,
    ) -> None:
        """Add an object; one whose box cannot be used is a skip."""
        image = self.image(path)
        try:
            corners = checked_box(*box)
        except BadObjectError as error:
            reason, detail = error.args
            self.skip(path, reason, f"{self.of(id)}: {detail}")
            return
        number = self.label_of.setdefault(label, len(self.label_of))
        self.table.add(image, corners, number, id, area=area, crowd=crowd, runs=runs, extra=extra)

    def listing(
        self, root: str, *, follow_links: bool, classes: Sequence[str] | None = None, relative: bool = False
    ) -> Listing:
        """The listing of the images that exist in the folder or URL ``root``, which is resolved.

        ``classes`` gives the order of the classes, by default sorted. ``relative`` boxes are shares of an
        image's width and height.
        """
        paths = list(self.number_of)
        named, missing = find_files(root, paths, follow_links=follow_links)
        if not len(named.files):
            shown = f", such as {', '.join(paths[:3])}" if paths else ""
            raise SourceError(
                f"not one of the {len(paths):,} images that {self.file} names is there{shown}",
                path=root,
                hint="name the folder of the images: --images DIR (images=)",
            )
        names = tuple(sorted(self.label_of) if classes is None else classes)
        self.table.relabel(np.array([names.index(name) for name in self.label_of], np.int64))
        rows = np.full(len(paths), -1, np.int64)
        rows[named.entries] = np.arange(len(named.files))
        sizes = np.array([self.sizes.get(number, (0, 0)) for number in named.entries.tolist()], np.int32)
        rows = rows[np.array(self.table.image, np.int64)]
        return Listing(
            **vars(named.files),
            labels=None,
            classes=names,
            skipped=tuple(sorted([*self.skipped, *missing])),
            objects=self.table.listed(rows, sizes, self.name, relative=relative),
        )


Runs = npt.NDArray[np.uint32]

_AHEAD = 8  # images in memory beyond those that are read


@dataclass(frozen=True)
class NamedObject:
    """An object of a CSV of Open Images."""

    path: str  # Path of its image
    box: tuple[float, float, float, float]  # Left, top, right, bottom, as shares of the image
    label: str  # Name of its class
    line: int  # Its line in the CSV
    crowd: bool = False  # Whether it stands for a group
    extra: Mapping[str, int] = field(default_factory=dict)  # Further numbers, by name
    mask: str = ""  # Name of the file of its mask; empty in a CSV of boxes

    def add_to(self, images: BoxImages, runs: Runs | None = None) -> None:
        """Add the object, with the run lengths of its mask."""
        area = None if runs is None else float(runs[1::2].sum() / runs.sum())
        images.add(
            self.path, self.box, self.label, self.line,
            crowd=self.crowd, extra=self.extra, runs=runs, area=area,
        )  # fmt: skip


class _Read(NamedTuple):
    """The size of an image, and for each of its objects run lengths or the reason for none."""

    size: tuple[int, int]
    outcomes: list[Runs | tuple[str, str]]


def add_with_masks(
    images: BoxImages, objects: Iterable[NamedObject], root: str, masks: SourceFolder, *, follow_links: bool
) -> None:
    """Add objects with their masks; an object without one is a skip. Reads all masks."""
    by_image: dict[str, list[NamedObject]] = {}
    for object_ in objects:
        by_image.setdefault(object_.path, []).append(object_)
        images.image(object_.path)
    paths = list(by_image)
    reader = _Reader(root, masks, by_image, follow_links=follow_links)
    existing = find_files(root, paths, follow_links=follow_links)[0]  # the conversion names missing images
    sizes = zip((paths[entry] for entry in existing.entries), existing.files.sizes.tolist(), strict=True)
    cores = available_cores()
    for (path, _), image in thread_map(reader.read, sizes, "masks", cores, cores + _AHEAD):
        if image is None:
            continue
        images.sizes[images.image(path)] = image.size
        for object_, outcome in zip(by_image[path], image.outcomes, strict=True):
            if isinstance(outcome, tuple):
                reason, detail = outcome
                images.skip(path, reason, f"{images.of(object_.line)}: {detail}")
            else:
                object_.add_to(images, outcome)


class _Reader:
    """Reads the masks of the objects of each image."""

    def __init__(
        self, root: str, masks: SourceFolder, by_image: Mapping[str, list[NamedObject]], *, follow_links: bool
    ) -> None:
        self._root, self._by_image, self._follow_links = root, by_image, follow_links
        self._files = masks.images()[0]
        self._row_of = {name.rpartition("/")[2]: row for row, name in enumerate(self._files.names())}

    def read(self, image: tuple[str, int]) -> _Read | None:
        """Read an image by its path and bytes, and its masks; None if the image is broken."""
        path, size = image
        try:
            data = read_source_file(self._root, path, size, follow_links=self._follow_links)
            header = check_image(data, MAX_PIXELS)
        except SkippedError:  # the conversion reports it
            return None
        shape = (header.height, header.width)
        return _Read(shape, [self._runs(one.mask, shape) for one in self._by_image[path]])

    def _runs(self, name: str, shape: tuple[int, int]) -> Runs | tuple[str, str]:
        row = self._row_of.get(name.rpartition("/")[2], -1)
        if row < 0:
            return "object whose mask is missing", name
        try:
            values = read_mask(self._files, row)
        except SkippedError as error:
            return "object whose mask is left out", ": ".join(filter(None, error.args))
        rows, columns = (_nearest(to, of) for to, of in zip(shape, values.shape, strict=True))
        mask = values[np.ix_(rows, columns)] > 0
        return runs_of_mask(mask) if mask.any() else ("object whose mask is empty", name)


def _nearest(pixels: int, of: int) -> npt.NDArray[np.int64]:
    """The nearest of ``of`` pixels for each of ``pixels`` that cover the same length."""
    return ((2 * np.arange(pixels) + 1) * of) // (2 * pixels)


_SIDES = ("XMin", "YMin", "XMax", "YMax")
_IMAGE, _LABEL, _MASK = "ImageID", "LabelName", "MaskPath"
_COLUMNS = {_IMAGE, _LABEL, *_SIDES}
_MASK_COLUMNS = {_IMAGE, _LABEL, _MASK, *(f"Box{side}" for side in _SIDES)}
_GROUP = "IsGroupOf"
_FLAGS = {
    "occluded": "IsOccluded",
    "truncated": "IsTruncated",
    "depiction": "IsDepiction",
    "inside": "IsInside",
}
_DESCRIPTIONS = "*class-descriptions*.csv"
_LONGEST_HEADER = 4096


def is_open_images(source: Source) -> bool:
    """Whether a source is a CSV with the columns of Open Images' objects; at a URL, by its name."""
    path = os.fspath(source.path)
    if not path.lower().endswith(".csv"):
        return False
    if is_url(path):
        return path.endswith(("annotations-bbox.csv", "annotations-object-segmentation.csv"))
    try:
        with Path(path).open(encoding="utf-8-sig", errors="replace") as file:
            header = set(file.readline(_LONGEST_HEADER).strip().split(","))
            return header >= _COLUMNS or header >= _MASK_COLUMNS
    except OSError:
        return False


def list_open_images(source: Source) -> Listing:
    """List the images of a CSV of Open Images that are in the folder of images, with their objects.

    The masks of a CSV of segmentations are in the folder ``instances``. An image is ``ID.jpg`` in the folder
    of images, by default the folder of the CSV. Classes are in sorted order of their names.
    """
    folder, _, name = os.fspath(source.path).rpartition("/")
    images = BoxImages(name, f"line {{}} of {name}")
    names = _descriptions(source, folder or ".")
    root = resolve(source.options.images or folder or ".")
    with local_copies([source.path]) as (file,), file.open(encoding="utf-8-sig", newline="") as text:
        try:
            objects = _objects(images, text, file, names, has_masks=source.options.instances is not None)
            if source.options.instances is None:
                for one in objects:
                    one.add_to(images)
            else:
                masks = source.open(source.options.instances)
                add_with_masks(images, objects, root, masks, follow_links=source.options.follow_links)
        except (csv.Error, UnicodeDecodeError) as error:
            raise SourceError(f"the CSV cannot be read: {error}", path=source.path) from error
    return images.listing(root, follow_links=source.options.follow_links, relative=True)


def _objects(
    images: BoxImages, text: Iterable[str], file: Path, names: Mapping[str, str], *, has_masks: bool
) -> Iterator[NamedObject]:
    """Yield the objects of a CSV; other lines become skips of ``images``."""
    reader = csv.reader(text)
    header = {name: at for at, name in enumerate(next(reader, []))}
    _check_header(header.keys(), file, has_masks=has_masks)
    image_at, label_at, group_at = header[_IMAGE], header[_LABEL], header.get(_GROUP)
    sides = [header[f"Box{side}" if has_masks else side] for side in _SIDES]
    flags = {flag: header[column] for flag, column in _FLAGS.items() if column in header}
    for row in reader:
        line = reader.line_num
        if len(row) < len(header):
            images.skip(images.file, "line that is no object", images.of(line))
            continue
        image, label = row[image_at].strip(), row[label_at].strip()
        if not image or not label:
            reason = "object of an unknown category" if image else "object of an unknown image"
            images.skip(f"{image}.jpg" if image else images.file, reason, images.of(line))
            continue
        left, top, right, bottom = (_number(row[at]) for at in sides)
        yield NamedObject(
            f"{image}.jpg",
            (left, top, right, bottom),
            names.get(label, label),
            line,
            crowd=group_at is not None and row[group_at] == "1",
            extra={flag: int(row[at] == "1") for flag, at in flags.items()},
            mask=row[header[_MASK]].strip() if has_masks else "",
        )


def _check_header(header: Collection[str], file: Path, *, has_masks: bool) -> None:
    """Raise an error if the CSV lacks a column, or has masks that are not asked for."""
    missing = (_MASK_COLUMNS if has_masks else _COLUMNS).difference(header)
    if has_masks and _MASK in missing:
        raise ConfigError(
            "the CSV names no masks of objects",
            path=file,
            hint="leave --instances (instances=) out, or convert ...-annotations-object-segmentation.csv",
        )
    if not has_masks and not _MASK_COLUMNS.difference(header):
        raise ConfigError(
            "the CSV names masks of objects, and the folder of the masks is not given",
            path=file,
            hint="--instances DIR (instances=)",
        )
    if missing:
        raise SourceError(
            f"the CSV has no column {', '.join(sorted(missing))}",
            path=file,
            hint=f"boxes of Open Images have the columns {', '.join(sorted(_COLUMNS))}",
        )


def _number(text: str) -> float:
    """The number in a cell; NaN for other texts, which makes the box invalid."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _descriptions(source: Source, folder: str) -> dict[str, str]:
    """Names of the classes by their ids, from the CSV beside the boxes; empty without one."""
    if is_url(folder):
        there = [name for name in source.open(folder).names(".csv") if "class-descriptions" in name]
        lines = source.open(folder).lines(there[0]) if there else None
    else:
        found = sorted(Path(folder).glob(_DESCRIPTIONS))
        lines = source.open(folder).lines(found[0].name) if found else None
    rows = csv.reader(lines or [])
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[0] != "LabelName"}
