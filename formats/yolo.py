"""YOLO's text files as a source: ``images/.../x.jpg`` with ``labels/.../x.txt``.

A line is one object: its class and, as shares of the image's width and height,
- the centre, width and height of its box;
- the same followed by its keypoints, where ``data.yaml`` has ``kpt_shape``;
- or x and y of the vertices of its outline.
The form is that of https://docs.ultralytics.com/datasets/. An image without a text file has no objects.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import SourceError
from stoker.formats.annotations import AnnotationInfo
from stoker.formats.files import open_regular, read_at
from stoker.formats.folder import find_images
from stoker.formats.listing import ListedObjects, Listing, Skip, printable
from stoker.formats.object_issues import BadObjectError, checked_box
from stoker.formats.object_table import ObjectTable
from stoker.formats.yolo_names import YoloNames, read_names

if TYPE_CHECKING:
    from stoker.formats.listing import ListedFiles

__all__ = ["is_yolo", "list_yolo"]

_IMAGES, _LABELS = "images", "labels"
_LONGEST = 16 << 20  # bytes of one image's labels
_NOT_LABELS = frozenset({"classes.txt"})


def is_yolo(path: Path) -> bool:
    """Whether a folder has images and labels, or is such a folder of images."""
    folders = _folders(path)
    if folders is None:
        return False
    walk = os.walk(folders[1])
    return any(name.endswith(".txt") and name not in _NOT_LABELS for _, _, files in walk for name in files)


def _folders(path: Path) -> tuple[Path, Path] | None:
    """The folder of images and that of labels that a source means."""
    if (path / _IMAGES).is_dir() and (path / _LABELS).is_dir():
        return path / _IMAGES, path / _LABELS
    parts = path.absolute().parts
    if _IMAGES in parts:
        last = len(parts) - 1 - parts[::-1].index(_IMAGES)
        labels = Path(*parts[:last], _LABELS, *parts[last + 1 :])
        if path.is_dir() and labels.is_dir():
            return path, labels
    return None


def list_yolo(path: str | os.PathLike[str]) -> Listing:
    """List the images of a YOLO folder, with their objects.

    Args:
        path: The folder with ``images`` and ``labels``; or a folder in ``images``, such as
            ``images/train``. Names of classes come from ``data.yaml`` or ``classes.txt`` in it, in the
            folder of labels, or in one of the two folders above.

    Raises:
        SourceError: There are no images, or ``data.yaml`` cannot be understood.
    """
    folders = _folders(Path(path))
    if folders is None:
        raise SourceError(
            "the source is not in the form of YOLO",
            path=path,
            hint="expected are images/.../x.jpg and labels/.../x.txt",
        )
    images, labels = (Path(os.path.realpath(folder)) for folder in folders)
    files, skipped = find_images(images)
    if not len(files):
        raise SourceError("the folder holds no image", path=images)
    names = read_names([Path(path), images, labels, *images.parents[:2]])
    reader = _Reader(labels, names, ObjectTable(keypoints=names.keypoints), skipped)
    for number, key in enumerate(files.names()):
        reader.read(number, key)
    reader.find_strays({os.path.splitext(key)[0] for key in files.names()})  # noqa: PTH122 - a key is no path
    return reader.listing(files)


@dataclass
class _Reader:
    labels: Path
    names: YoloNames
    table: ObjectTable
    skipped: list[Skip]
    highest: int = field(default=-1)

    def read(self, number: int, key: str) -> None:
        """Read the labels of one image, if it has any."""
        name = f"{os.path.splitext(key)[0]}.txt"  # noqa: PTH122 - a key is no path
        try:
            with open_regular(self.labels / name) as (descriptor, size):
                if size > _LONGEST:
                    raise ValueError(f"{size} bytes, more than {_LONGEST}")
                text = read_at(descriptor, 0, size).decode("utf-8-sig")
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self.skipped.append(Skip(key, "labels that cannot be read", f"{name}: {error}"))
            return
        for position, line in enumerate(text.splitlines()):
            if not line.strip():
                continue
            try:
                self._object(number, position, line)
            except BadObjectError as error:
                reason, detail = error.args
                self.skipped.append(Skip(key, reason, f"line {position + 1} of {name}: {detail}"))

    def _object(self, image: int, position: int, line: str) -> None:
        try:
            label, *values = [float(word) for word in line.split()]
        except ValueError as error:
            raise BadObjectError("line that is no object", str(error)) from error
        if not (label.is_integer() and 0 <= label < (len(self.names.classes) or 1 << 31)):
            raise BadObjectError("object of an unknown category", f"{label:g}")
        self.highest = max(self.highest, int(label))
        if len(values) == 4 or (self.names.keypoints and len(values) == 4 + self.names.numbers):
            x, y, width, height = values[:4]
            box = checked_box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            self.table.add(image, box, int(label), position, keypoints=self._keypoints(values[4:]))
        elif len(values) >= 6 and len(values) % 2 == 0:
            xs, ys = values[0::2], values[1::2]
            box = checked_box(min(xs), min(ys), max(xs), max(ys))
            self.table.add(image, box, int(label), position, area=_area(xs, ys), polygons=[values])
        else:
            raise BadObjectError("line that is no object", f"{1 + len(values)} numbers")

    def _keypoints(self, values: list[float]) -> list[float]:
        """x, y and visibility of each; without the latter, a point in the corner is not labelled."""
        if not np.isfinite(values).all():
            raise BadObjectError("object with keypoints that are no numbers")
        if self.names.numbers == 3 * self.names.keypoints:
            return values
        seen = (2.0 if x or y else 0.0 for x, y in zip(values[0::2], values[1::2], strict=True))
        points = zip(values[0::2], values[1::2], seen, strict=True)
        return [number for point in points for number in point]

    def find_strays(self, stems: set[str]) -> None:
        """Note the files of labels that no image has."""
        for folder, _, files in os.walk(self.labels):
            for name in files:
                stem, suffix = os.path.splitext(name)  # noqa: PTH122 - a name is no path
                relative = os.path.relpath(folder, self.labels)
                key = os.path.normpath(f"{relative}/{stem}")
                if suffix == ".txt" and name not in _NOT_LABELS and key not in stems:
                    self.skipped.append(Skip(printable(f"{key}.txt"), "labels without an image"))

    def listing(self, files: ListedFiles) -> Listing:
        """All that was read."""
        rows = np.array(self.table.image, np.int64)
        keypoints = tuple(map(str, range(self.names.keypoints)))
        unknown = np.zeros(len(files), np.int32)
        return Listing(
            **vars(files),
            labels=None,
            classes=self.names.classes or tuple(map(str, range(self.highest + 1))),
            skipped=tuple(sorted(self.skipped)),
            objects=ListedObjects(
                columns=self.table.columns(rows, len(files)),
                relative=True,
                heights=unknown,
                widths=unknown,
                name="object {} of its labels",
            ),
            info=AnnotationInfo(keypoints, self.names.swap or tuple(range(len(keypoints)))),
        )


def _area(xs: list[float], ys: list[float]) -> float:
    """Area of a polygon, by the shoelace formula."""
    return abs(sum(x * (ys[i - 1] - ys[(i + 1) % len(ys)]) for i, x in enumerate(xs))) / 2
