"""labelme's JSON as a source: each file beside its image, or in a folder beside the folder of the images.

Polygons, rectangles and circles become objects. As in labelme's own converter (examples/
instance_segmentation/labelme2coco.py), shapes of one label and ``group_id`` are one object, and a circle is
the polygon around it. Points, lines and masks in pixels are left out and counted.
"""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any

from stoker.errors import SourceError

from ..files import printable_name
from .layouts import LABELME, readable_layout
from .listing import Listing
from .objects import BadObjectError, Document, area_of, list_documents, numbers
from .source import Source

_SPACING = 1.0  # pixels that the polygon around a circle may lie inside it
_MOST_STEPS = 1_000  # of that polygon
_LONGEST = 1 << 31  # pixels of a side
_POLYGONS = ("polygon", "rotation")  # X-AnyLabeling writes turned boxes as rotation


def list_labelme(source: Source) -> Listing:
    """List the images of a folder of labelme, with their objects; classes in sorted order."""
    layout = readable_layout(source, LABELME)
    if layout is None:
        raise SourceError(
            "the source is not labelme's: it has no .json files with the names of images",
            path=source.path,
            hint="Its files must be x.json beside x.jpg, or in a folder beside the folder of the images.",
        )
    folders = source.folder, layout.annotations, layout.images
    return list_documents(source, folders, ".json", _document)


def _document(content: bytes) -> Document | None:
    value = json.loads(content.decode("utf-8-sig"))
    if not isinstance(value, dict) or "shapes" not in value:
        return None
    shapes, named = value["shapes"], value.get("imagePath")
    if not isinstance(shapes, list) or not all(isinstance(shape, dict) for shape in shapes):
        raise ValueError("its shapes are not a list of objects")
    groups: dict[Any, list[dict[str, Any]]] = {}
    for number, shape in enumerate(shapes):
        group = shape.get("group_id")
        key = (str(shape.get("label")), group) if isinstance(group, int) else number
        groups.setdefault(key, []).append(shape)
    height, width = (_side(value.get(f"image{side}")) for side in ("Height", "Width"))
    return Document(
        named if isinstance(named, str) else "",
        (height, width),
        [partial(_object, one) for one in groups.values()],
    )


def _side(value: Any) -> int:
    return value if type(value) is int and 0 < value < _LONGEST else 0


def _object(shapes: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    label = shapes[0].get("label")
    if not isinstance(label, str) or not label.strip():
        raise BadObjectError("object of an unknown category", f"label {label!r}"[:60])
    label = printable_name(label.strip())
    outlines = [_outline(shape) for shape in shapes]
    xs, ys = ([value for one in outlines for value in one[at::2]] for at in (0, 1))
    box = min(xs), min(ys), max(xs), max(ys)
    if any(shape.get("shape_type") == "rectangle" for shape in shapes):
        return label, {"box": box}
    area = sum(area_of(one[0::2], one[1::2]) for one in outlines)
    is_turned = len(outlines) == 1 and shapes[0].get("shape_type") == "rotation" and len(outlines[0]) == 8
    corners = {"turned": True, "corners": outlines[0]} if is_turned else {}
    return label, {"box": box, "area": area, "polygons": outlines, **corners}


def _outline(shape: dict[str, Any]) -> list[float]:
    """Return x and y of the points of a shape; of a rectangle, its corners."""
    kind, points = shape.get("shape_type") or "polygon", shape.get("points")
    if (
        not isinstance(points, list)
        or not points
        or not all(numbers(one) and len(one) == 2 for one in points)
    ):
        raise BadObjectError("shape without points", str(points)[:60])
    flat = [float(value) for point in points for value in point]
    if len(points) > 2 if kind in _POLYGONS else kind == "rectangle" and len(points) in (2, 4):
        return flat
    if kind == "circle" and len(points) == 2:
        x, y, edge_x, edge_y = flat
        radius = math.hypot(edge_x - x, edge_y - y)
        angle = math.acos(1 - _SPACING / radius) if radius > _SPACING else math.pi
        steps = max(12, int(math.pi / max(angle, math.pi / _MOST_STEPS)))
        turns = (2 * math.pi * step / steps for step in range(steps))
        return [
            value for turn in turns for value in (x + radius * math.sin(turn), y + radius * math.cos(turn))
        ]
    if kind in (*_POLYGONS, "rectangle", "circle"):
        raise BadObjectError("polygon of less than three points", f"{kind} of {len(points)}")
    raise BadObjectError("shape that is no box and no outline", str(kind)[:60])
