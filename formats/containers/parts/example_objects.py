"""Objects in a tf.train.Example, as TensorFlow's object detection API stores them.

The names are those of research/object_detection/data_decoders/tf_example_decoder.py in tensorflow/models.
There, boxes are shares of the image's height and width, and labels count from 1, because 0 is the background.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import SourceError

from ...codecs.header import ImageHeader
from ..messages.image_record import ExternalObjects

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_FLAGS = ("difficult", "truncated")
_MOST_SHARE = 1.1
"""The largest coordinate that the API accepts (``maximum_normalized_coordinate`` in core/box_list_ops.py)."""


def parse_objects(numbers: Mapping[str, list[float]], header: ImageHeader) -> ExternalObjects | None:
    """Return the objects of a record; None if the record states no objects.

    ``numbers`` has the features of objects that hold numbers, by name without the common start.
    """
    # ImageNet's files have boxes without classes of objects.
    if not {"class/label", *(f"bbox/{side}" for side in _SIDES)} <= numbers.keys():
        return None
    count = len(numbers[f"bbox/{_SIDES[0]}"])
    sides = [_of_each(numbers, f"bbox/{side}", count) for side in _SIDES]
    if any(not abs(share) <= _MOST_SHARE for side in sides for share in side):
        raise SourceError(
            "an object's box is not in shares of the image's width and height",
            hint="the object detection API divides boxes by the size of the image; --objects '' leaves them "
            "out, and stoker convert reads annotations in pixels",
        )
    labels = _of_each(numbers, "class/label", count)
    wrong = [label for label in labels if not isinstance(label, int) or label < 1]
    if wrong:
        raise SourceError(
            f"an object has label {wrong[0]}, and the object detection API counts classes from 1",
            hint="--objects '' leaves the objects out",
        )
    scale = (header.width, header.height) * 2
    return ExternalObjects(
        boxes=[_scaled(box, scale) for box in zip(*sides, strict=True)],
        labels=[int(label) - 1 for label in labels],
        area=_optional(numbers, "area", count),
        crowd=[int(value != 0) for value in _optional(numbers, "is_crowd", count) or [0] * count],
        flags={
            name: [int(value != 0) for value in _of_each(numbers, name, count)]
            for name in _FLAGS
            if name in numbers
        },
    )


def _scaled(box: tuple[float, ...], scale: tuple[int, ...]) -> tuple[float, float, float, float]:
    left, top, right, bottom = (share * side for share, side in zip(box, scale, strict=True))
    return left, top, right, bottom


def _optional(numbers: Mapping[str, list[float]], name: str, count: int) -> list[float] | None:
    return _of_each(numbers, name, count) if numbers.get(name) else None


def _of_each(numbers: Mapping[str, list[float]], name: str, count: int) -> list[float]:
    """Return a feature that has a number for each object."""
    values = numbers.get(name, [])
    if len(values) != count:
        raise SourceError(
            f"the objects contradict each other: {name} has {len(values)} numbers where bbox/{_SIDES[0]} has "
            f"{count}",
            hint="--objects '' leaves the objects out",
        )
    return values
