"""Objects in a column of a table, or in a field of an item, as Hugging Face's datasets have them.

A row has a list of objects, or an object of lists: of each a box of four numbers and a category, and maybe
``area``, ``id`` and ``iscrowd``. Boxes are left, top, width and height in pixels, as in COCO and in
transformers' run_object_detection.py, unless ``box_format`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from stoker.errors import SourceError
from stoker.log import EventLog

from .listing import ListedObjects, Skip
from .objects import BadObjectError, Box, ObjectTable, checked_box, numbers

_LOG = EventLog("conversion")
_NAMES = {
    "box": ("bbox", "bboxes", "box", "boxes"),
    "category": (
        "category",
        "categories",
        "category_id",
        "category_ids",
        "label",
        "labels",
        "class",
        "classes",
    ),
    "area": ("area", "areas"),
    "id": ("id", "ids", "bbox_id", "object_id"),
    "crowd": ("iscrowd", "is_crowd", "crowd"),
}
_MOST_CLASSES = 1_000_000  # without names: then the highest number gives their number
_MOST_ALIKE = 16  # boxes that may fit both formats by chance


def object_fields(names: Iterable[str]) -> dict[str, str]:
    """The names of the fields of an object by their use; empty where these are no objects."""
    there = list(names)
    found = {use: next((one for one in known if one in there), "") for use, known in _NAMES.items()}
    return {use: name for use, name in found.items() if name} if found["box"] and found["category"] else {}


def fields_of_type(kind: pa.DataType) -> dict[str, str]:
    """The fields of the objects that a column of an Arrow type holds; empty where it holds none."""
    return object_fields(names_of_type(kind))


def names_of_type(kind: pa.DataType) -> list[str]:
    """Names in the structures of a column of an Arrow type, which may be in lists."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    inner = kind.value_type if is_list else kind
    try:
        return [field.name for field in inner] if pa.types.is_struct(inner) else []
    except UnicodeDecodeError:
        return []


def warn_of_others(names: Iterable[str], fields: Mapping[str, str], where: str) -> None:
    """Log the fields of objects that are not read, such as outlines and keypoints."""
    if others := [one for one in names if one not in fields.values()]:
        _LOG.warning(
            f"fields of {where}", f"fields of the objects in {where} are left out: {', '.join(others)}"
        )


def objects_of(value: Any, fields: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The objects of a row, each with its values by their use."""
    if isinstance(value, Mapping):
        columns = ([] if value.get(name) is None else value[name] for name in fields.values())
        yield from (dict(zip(fields, one, strict=True)) for one in zip_longest(*columns))
    else:
        yield from ({use: one.get(name) for use, name in fields.items()} for one in value or () if one)


def check_box_format(
    boxes: Sequence[Any], sizes: Sequence[tuple[Any, Any]], box_format: str | None, where: str
) -> str:
    """The format of some boxes; SourceError where they do not fit COCO's and no format was given.

    ``sizes`` has the height and width of the image of each box, where they are known.
    """
    usable = [at for at, box in enumerate(boxes) if numbers(box) and len(box) == 4]
    table = np.array([boxes[at] for at in usable], np.float64).reshape(-1, 4)
    if len(table) and table.min() >= 0 and table.max() <= 1:
        raise SourceError(
            f"the boxes of {where} must be in pixels, found numbers from 0 to 1",
            hint="Multiply them by the width and height of their images.",
        )
    if box_format is not None:
        return box_format
    known = [all(type(side) is int and side > 0 for side in sizes[at]) for at in usable]
    limits = np.array([sizes[at][::-1] for at, stated in zip(usable, known, strict=True) if stated])
    # A pixel more is rounding.
    outside = table[known][:, :2] + table[known][:, 2:] > limits.reshape(-1, 2) + 1
    corners = len(table) > 0 and bool((table[:, 2:] > table[:, :2]).all())
    if corners and (outside.any() if all(known) else len(table) > _MOST_ALIKE):
        raise SourceError(
            f"the boxes of {where} fit left, top, right and bottom better than left, top, width and height",
            hint="Say what they are: box_format='xyxy', or box_format='xywh'.",
        )
    return "xywh"


def corners_of(box: Any, box_format: str) -> Box:
    """Left, top, right and bottom of a box; BadObjectError where it is none."""
    box = list(box) if isinstance(box, (list, tuple, np.ndarray)) else box
    if not numbers(box) or len(box) != 4:
        raise BadObjectError("object without a box", str(box)[:60])
    x, y, right, bottom = box
    if box_format.lower() == "xywh":
        right, bottom = x + right, y + bottom
    elif box_format.lower() == "cxcywh":
        x, y, right, bottom = x - right / 2, y - bottom / 2, x + right / 2, y + bottom / 2
    return checked_box(x, y, right, bottom)


def list_objects(
    rows: Sequence[Any],
    keys: Sequence[str],
    fields: Mapping[str, str],
    names: tuple[str, ...],
    box_format: str,
) -> tuple[ListedObjects, tuple[str, ...], list[Skip]]:
    """The objects of N rows, the names of their classes, and the objects that are left out."""
    # ``names`` are those of a ClassLabel. Without them numbers are labels, and texts are sorted.
    table, labels, skipped = ObjectTable(), list[Any](), list[Skip]()
    for row, value in enumerate(rows):
        for index, one in enumerate(objects_of(value, fields)):
            try:
                box = corners_of(one["box"], box_format)
                label = _label(one["category"], len(names) or _MOST_CLASSES)
            except BadObjectError as error:
                reason, detail = error.args
                skipped.append(Skip(keys[row], reason, f"object {index}: {detail}"))
                continue
            area, number = one.get("area"), one.get("id")
            labels.append(label)
            table.add(
                row,
                box,
                0,
                number if type(number) is int else index,
                area=area if numbers([area]) and area is not None and area >= 0 else None,
                crowd=bool(one.get("crowd")),
            )
    texts = sorted({label for label in labels if isinstance(label, str)})
    if texts and len(texts) < len(set(labels)):
        raise SourceError("some categories of objects are texts, and others are numbers", hint="Write texts.")
    classes = names or tuple(texts) or tuple(map(str, range(max(labels, default=-1) + 1)))
    number_of = {text: number for number, text in enumerate(texts)} if not names else {}
    table.label = type(table.label)("q", [number_of.get(label, label) for label in labels])
    sizes = np.zeros((len(rows), 2), np.int32)
    return table.listed(np.array(table.image, np.int64), sizes, "object {}"), classes, skipped


def _label(category: Any, most: int) -> int | str:
    if isinstance(category, str) and category.strip():
        return category.strip()
    if type(category) is float and category.is_integer():
        category = int(category)
    if type(category) is not int or not 0 <= category < most:
        raise BadObjectError("object of an unknown category", str(category)[:60])
    return category
