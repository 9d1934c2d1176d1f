"""The categories of a COCO file: the names of classes and of keypoints."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import SourceError

from ....dataset.annotations import AnnotationInfo
from ....files import printable_name


class Categories:
    """The categories of a file; they may come after the annotations that refer to them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._by_id: dict[Any, dict[str, Any]] = {}

    def add(self, value: Any) -> None:
        """Add an element of ``categories``."""
        if not isinstance(value, dict) or not is_id(value.get("id")):
            raise SourceError("a category has no id", path=self._file)
        if self._by_id.get(value["id"], value) != value:
            raise SourceError(f"two categories have the id {value['id']}", path=self._file)
        self._by_id[value["id"]] = value

    def labels(self, ids: Iterable[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
        """Labels of categories, which count from 0 in the order of the ids."""
        try:
            ordered_ids = sorted(self._by_id)
        except TypeError as error:
            raise SourceError(
                "some ids of categories are numbers and some are text", path=self._file
            ) from error
        label_of = {category: label for label, category in enumerate(ordered_ids)}
        names = (self._by_id[category].get("name") for category in ordered_ids)
        return np.array([label_of.get(category, -1) for category in ids], np.int64), tuple(
            printable_name(name if isinstance(name, str) else f"category {category}")
            for category, name in zip(ordered_ids, names, strict=True)
        )

    def ids(self) -> tuple[int | str, ...]:
        """The id of each category, by label."""
        return tuple(sorted(self._by_id))

    def keypoints(self) -> set[int]:
        """The numbers of keypoints that categories declare."""
        names = (category.get("keypoints") for category in self._by_id.values())
        return {len(some) for some in names if isinstance(some, list) and some}

    def info(self, keypoints: int) -> AnnotationInfo:
        """Names, swap and skeleton of the first category with this number of keypoints."""
        for category in self._by_id.values() if keypoints else ():
            names = category.get("keypoints")
            if isinstance(names, list) and len(names) == keypoints:
                return self._named(category, tuple(printable_name(str(name)) for name in names))
        numbers = tuple(range(keypoints))
        return AnnotationInfo(tuple(map(str, numbers)), numbers)

    def _named(self, category: dict[str, Any], names: tuple[str, ...]) -> AnnotationInfo:
        try:
            joined = tuple((int(a) - 1, int(b) - 1) for a, b in category.get("skeleton") or [])
            return AnnotationInfo(names, swap_of(names), joined)
        except (TypeError, ValueError) as error:
            raise SourceError(
                f"the skeleton of category {category['id']} is wrong: {error}", path=self._file
            ) from error


def is_id(value: Any) -> bool:
    """Whether a value may be the id of an image or a category: text, or an integer of 64 bits."""
    return isinstance(value, str) or (type(value) is int and abs(value) < 1 << 63)


def swap_of(names: tuple[str, ...]) -> tuple[int, ...]:
    """The keypoint that each becomes in a mirrored image, by name: ``left_eye`` and ``right_eye`` swap."""
    opposite = {"left": "right", "right": "left"}
    index_of = {name: i for i, name in enumerate(names)}
    swap = []
    for i, name in enumerate(names):
        side = next((side for side in opposite if side in name), None)
        swap.append(i if side is None else index_of.get(name.replace(side, opposite[side]), i))
    return tuple(swap) if sorted(swap) == list(range(len(swap))) else tuple(range(len(swap)))
