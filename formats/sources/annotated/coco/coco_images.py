"""The images that a COCO file names: their ids, file names and sizes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from stoker.urls import is_url

from ....files import printable_name
from ...listing import Skip
from .coco_categories import is_id
from .coco_shapes import is_size

# Lists of LVIS. An image shows no object of its negative categories. Of its not exhaustive categories it may
# show objects that are not annotated.
_CLASS_LISTS = ("neg_category_ids", "not_exhaustive_category_ids")


class Images:
    """The images of a file; an image gets its number when its id is first seen, anywhere in the file.

    ``root`` is the folder of the images, or its URL.
    """

    def __init__(self, file: Path, root: str) -> None:
        self._file = file
        self._root = root
        self._has_folder: dict[str, bool] = {}
        self.names: list[str] = []
        self.numbers: list[int] = []
        self.sizes: dict[int, tuple[int, int]] = {}
        self.number_of: dict[Any, int] = {}
        self.class_lists: dict[str, dict[int, list[int]]] = {}
        self.bad: list[Skip] = []

    def number(self, image_id: Any) -> int:
        """The number of the image with an id; -1 for a value that cannot be an id."""
        return self.number_of.setdefault(image_id, len(self.number_of)) if is_id(image_id) else -1

    def add(self, value: Any) -> None:
        """Add an element of ``images``."""
        known = isinstance(value, dict) and is_id(value.get("id"))
        name = self._file_name(value) if known else ""
        if not name:
            detail = f"image {len(self.names) + len(self.bad)} of {self._file.name}"
            self.bad.append(Skip(self._file.name, "image without an id or a file_name", detail))
            return
        number = self.number(value["id"])
        if number in self.sizes:
            detail = f"{value['id']} in {self._file.name}"
            self.bad.append(Skip(name, "image whose id another one has", detail))
            return
        height, width = value.get("height"), value.get("width")
        self.sizes[number] = height if is_size(height) else 0, width if is_size(width) else 0
        self.numbers.append(number)
        self.names.append(name)
        for name in _CLASS_LISTS:
            ids = value.get(name)
            if isinstance(ids, list) and all(type(one) is int for one in ids):
                self.class_lists.setdefault(name, {})[number] = ids

    def columns(self, entries: Sequence[int]) -> dict[str, pa.Array]:
        """Columns of the images at these indexes in :attr:`names`: their ids, and the lists of LVIS."""
        numbers = [self.numbers[entry] for entry in entries]
        id_of = {number: image_id for image_id, number in self.number_of.items()}
        columns = {"image_id": _id_column([id_of[number] for number in numbers])}
        for name, lists in self.class_lists.items():
            columns[name] = pa.array([lists.get(number, []) for number in numbers], pa.large_list(pa.int64()))
        return columns

    def listed_twice(self, entries: Iterable[int]) -> set[int]:
        """Numbers of the images that are not among ``entries`` but name the same file as one of them.

        ``entries`` are indexes in :attr:`names`.
        """
        taken = set(entries)
        files = {os.path.normpath(self.names[at]) for at in taken}
        others = (at for at in range(len(self.names)) if at not in taken)
        return {self.numbers[at] for at in others if os.path.normpath(self.names[at]) in files}

    def _file_name(self, value: dict[str, Any]) -> str:
        """The file name of an image; empty where it has none.

        LVIS has ``coco_url`` instead, such as http://images.cocodataset.org/train2017/000000391895.jpg.
        The name is the last part of the URL. If the images lie in a folder that is named as the last folder
        of the URL, that folder is part of the name.
        """
        name, url = value.get("file_name"), value.get("coco_url")
        if isinstance(name, str) and name:
            return name
        if name is not None or not isinstance(url, str):
            return ""
        folder, _, name = urlsplit(url).path.rpartition("/")
        folder = folder.rpartition("/")[2]
        if folder not in self._has_folder:
            if is_url(self._root):
                inside = not self._root.endswith(f"/{folder}")
            else:
                inside = os.path.isdir(f"{self._root}/{folder}")  # noqa: PTH112 - the root is text
            self._has_folder[folder] = bool(folder) and inside
        return f"{folder}/{name}" if self._has_folder[folder] else name


def _id_column(ids: list[Any]) -> pa.Array:
    if all(type(one) is int for one in ids):
        return pa.array(ids, pa.int64())
    return pa.array([printable_name(str(one)) for one in ids], pa.large_string())
