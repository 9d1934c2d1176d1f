"""YOLO's text files as a source: ``images/.../x.jpg`` with ``labels/.../x.txt``.

A line is one object: its class and, as shares of the image's width and height,
- the centre, width and height of its box;
- the same and its keypoints, where ``data.yaml`` has ``kpt_shape``;
- or x and y of the vertices of its outline.
The format is that of https://docs.ultralytics.com/datasets/. An image without a text file has no objects.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from stoker.errors import SourceError
from stoker.urls import is_url

from ....dataset.annotations import AnnotationInfo
from ....files import printable_name
from ...folders.source_folder import SourceFolder, split_at_folder
from ...listing import ListedFiles, Listing, Skip
from ...no_images import no_images_error
from ...source import Source
from ..object_issues import BadObjectError, checked_box, numbers
from ..object_table import ObjectTable
from .yolo_names import YoloNames, read_names
from .yolo_splits import is_data_file, read_data_file

_IMAGES, _LABELS = "images", "labels"
_NOT_LABELS = frozenset({"classes.txt"})
_MOST_CLASSES = 1_000_000  # without names: then the highest label gives their number


def is_yolo(source: Source) -> bool:
    """Whether a source is a folder with images and labels, such a folder of images, or a ``data.yaml``."""
    if is_data_file(source.path):
        return True
    folders = _folders(source)
    return folders is not None and bool(_label_files(folders[1]))


def _folders(source: Source) -> tuple[SourceFolder, SourceFolder] | None:
    """The folder of the images and that of the labels; None where the source has none."""
    images, labels = source.folder.child(_IMAGES), source.folder.child(_LABELS)
    if not (images.exists() and labels.exists()):
        parts = split_at_folder(source.path, _IMAGES)
        if parts is None:
            return None
        images, labels = source.folder, source.open("/".join([parts[0], _LABELS, parts[1]]).rstrip("/"))
    return (images, labels) if images.exists() and labels.exists() else None


def _label_files(labels: SourceFolder) -> list[str]:
    return [name for name in labels.names(".txt") if name.rpartition("/")[2] not in _NOT_LABELS]


def list_yolo(source: Source) -> Listing:
    """List the images of a YOLO folder, with their objects."""
    if is_data_file(source.path):
        return _list_splits(source)
    folders = _folders(source)
    if folders is None:
        raise SourceError(
            "the source is no YOLO: it has no folders of images and labels",
            path=source.path,
            hint="its files must be images/.../x.jpg and labels/.../x.txt",
        )
    images, labels = folders
    files, skipped = images.images()
    if not len(files):
        raise no_images_error("the folder holds no image", images.root, skipped)
    names = read_names([source.folder, images, labels, images.parent, images.parent.parent])
    reader = _Reader(names, ObjectTable(keypoints=names.keypoints), skipped)
    reader.read_all(files, labels, list(map(_labels_of, files.names())))
    reader.find_strays(_label_files(labels), set(map(_labels_of, files.names())))
    return reader.listing(files)


def _list_splits(source: Source) -> Listing:
    """List the images of all splits of a ``data.yaml``."""
    if is_url(source.path):
        raise SourceError(
            "a data.yaml is read from a disk, and this is a URL",
            path=source.path,
            hint="convert each split by itself, and name its folder, such as train/images",
        )
    data = read_data_file(source.path)
    images = data.images(follow_links=source.follow_links)
    names = list(map(_labels_beside, images.files.names()))
    reader = _Reader(data.names, ObjectTable(keypoints=data.names.keypoints), images.skipped)
    reader.read_all(images.files, images.root, names)
    expected = set(names)
    for folder in images.folders:
        labels = _labels_beside(f"{folder}/x").rpartition("/")[0]
        if labels != folder:  # beside images there are other texts, too
            label_files = (f"{labels}/{name}" for name in _label_files(images.root.child(labels)))
            reader.find_strays(label_files, expected)
    return replace(reader.listing(images.files), split=images.split, splits=tuple(data.splits))


def _labels_of(key: str) -> str:
    return f"{os.path.splitext(key)[0]}.txt"  # noqa: PTH122 - a key is no path


def _labels_beside(key: str) -> str:
    """The file of labels of an image, with its last folder ``images`` replaced; beside it without one."""
    before, found, behind = f"/{_labels_of(key)}".rpartition(f"/{_IMAGES}/")
    return f"{before}/{_LABELS}/{behind}".lstrip("/") if found else behind.lstrip("/")


@dataclass
class _Reader:
    """Collects the labels of all images, and the highest label."""

    names: YoloNames
    table: ObjectTable
    skipped: list[Skip]
    highest: int = -1

    def read_all(self, files: ListedFiles, labels: SourceFolder, names: list[str]) -> None:
        """Read the labels of all images, which are the files ``names`` in the folder ``labels``."""
        contents = zip(files.names(), names, labels.read(names), strict=True)
        for number, (key, name, content) in enumerate(contents):
            self._read(number, key, name, content)

    def _read(self, number: int, key: str, name: str, content: bytes | OSError | ValueError) -> None:
        """Read the labels of one image, if it has any."""
        try:
            if not isinstance(content, bytes):
                raise content
            text = content.decode("utf-8-sig")
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self.skipped.append(Skip(key, "labels that cannot be read", f"{name}: {error}"))
            return
        for index, line in enumerate(text.splitlines()):
            if not line.strip():
                continue
            try:
                self._object(number, index, line)
            except BadObjectError as error:
                reason, detail = error.args
                self.skipped.append(Skip(key, reason, f"line {index + 1} of {name}: {detail}"))

    def _object(self, image: int, index: int, line: str) -> None:
        try:
            label, *values = [float(word) for word in line.split()]
        except ValueError as error:
            raise BadObjectError("line that is no object", str(error)) from error
        if not (label.is_integer() and 0 <= label < (len(self.names.classes) or _MOST_CLASSES)):
            raise BadObjectError("object of an unknown category", f"{label:g}")
        self.highest = max(self.highest, int(label))
        if len(values) == 4 or (self.names.keypoints and len(values) == 4 + self.names.numbers):
            x, y, width, height = values[:4]
            box = checked_box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            self.table.add(image, box, int(label), index, keypoints=self._keypoints(values[4:]))
        elif len(values) >= 6 and len(values) % 2 == 0:
            if not numbers(values):  # min() and max() of the vertices would hide a NaN
                raise BadObjectError("object without a box", "vertices that are no numbers")
            xs, ys = values[0::2], values[1::2]
            box = checked_box(min(xs), min(ys), max(xs), max(ys))
            self.table.add(image, box, int(label), index, area=_area(xs, ys), polygons=[values])
        else:
            raise BadObjectError("line that is no object", f"{1 + len(values)} numbers")

    def _keypoints(self, values: list[float]) -> list[float]:
        """x, y and visibility of each keypoint; without visibilities, a point at (0, 0) is not labelled."""
        if not numbers(values):
            raise BadObjectError("object with keypoints that are no numbers", str(values)[:60])
        if self.names.numbers == 3 * self.names.keypoints:
            return values
        seen = (2.0 if x or y else 0.0 for x, y in zip(values[0::2], values[1::2], strict=True))
        points = zip(values[0::2], values[1::2], seen, strict=True)
        return [number for point in points for number in point]

    def find_strays(self, label_files: Iterable[str], expected: Collection[str]) -> None:
        """Note the files of labels that belong to no image."""
        strays = (name for name in label_files if name not in expected)
        self.skipped += [Skip(printable_name(name), "labels without an image") for name in strays]

    def listing(self, files: ListedFiles) -> Listing:
        """The listing of all images."""
        rows = np.array(self.table.image, np.int64)
        keypoints = tuple(map(str, range(self.names.keypoints)))
        unknown = np.zeros((len(files), 2), np.int32)
        return Listing(
            **vars(files),
            labels=None,
            classes=self.names.classes or tuple(map(str, range(self.highest + 1))),
            skipped=tuple(sorted(self.skipped)),
            objects=self.table.listed(rows, unknown, "object {} of its labels", relative=True),
            info=AnnotationInfo(keypoints, self.names.swap or tuple(range(len(keypoints)))),
        )


def _area(xs: list[float], ys: list[float]) -> float:
    """Area of a polygon, by the shoelace formula."""
    return abs(sum(x * (ys[i - 1] - ys[(i + 1) % len(ys)]) for i, x in enumerate(xs))) / 2
