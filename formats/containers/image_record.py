"""Images in records: what a conversion writes about an image, and what an external record states."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stoker.arguments import one_of
from stoker.errors import ConfigError, SourceError

from ..codecs.codec import is_pixel_shape, raw_header

if TYPE_CHECKING:  # the help of the command line loads no NumPy
    from ..codecs.codec import ImageHeader
    from .protobuf import Feature, Span

Value = int | float | str


class JsonText(str):
    """The JSON of a value of a record, such as a list, as a column of texts keeps it."""

    __slots__ = ()


"""A value of a column of an external sample."""

Label = int | str | float | tuple[int, ...]
"""The label of a sample: the number or the name of a class, the numbers of several classes, or a float."""

LABEL_TYPES = {
    "int": "one whole number, the class",
    "float": "one number that is not a class, such as a score",
    "first": "the first of several numbers, the class, such as a person's number in InsightFace's files",
    "several": "any number of classes",
    "one-hot": "a number for each class, 1 for the class of the sample and 0 for the others",
    "multi-hot": "a number for each class, 1 for each class of the sample and 0 for the others",
    "shard": "no part of the record: each shard is a class, by its position",
}
"""The forms of labels in records, with descriptions."""


class LeftOutError(Exception):
    """The reason to leave out a record, in words that many records share, so that it can be counted."""


@dataclass(frozen=True)
class ImageRecord:
    """An image of a conversion, with all that its record may state."""

    key: str  # Path of the image relative to the source
    payload_bytes: int  # Length of the encoded image
    format: str  # Name of its codec, such as JPEG; RAW for (height, width, 3) uint8 RGB pixels
    height: int  # Pixels, after the EXIF orientation has been applied
    width: int  # Pixels, after the EXIF orientation has been applied
    orientation: int = 1  # EXIF orientation of the encoded image, 1 to 8
    # Labels of the sample, from 0; None if only its objects have labels
    labels: tuple[int, ...] | None = None
    classes: Sequence[str] = ()  # Names of the labels; empty if they have none
    # Returns the features of the image's objects; None if the source has no objects
    objects: Callable[[], Mapping[str, Feature]] | None = None
    mask: bytes | None = None  # Encoded mask, PNG; None if there is none


@dataclass(frozen=True)
class StoredArray:
    """An array of the user beside the image of a record."""

    name: str  # Name of its column
    dtype: str  # NumPy's name of its element type
    shape: tuple[int, ...]  # Its shape
    data: bytes  # Its elements in C order, little-endian


@dataclass(frozen=True)
class FeatureNames:
    """The names and the forms of the parts of a record. The defaults are ImageNet's tf.train.Example."""

    encoded: str = "image/encoded"  # The image, bytes
    label: str | None = "image/class/label"  # The class; None, or absent from the records, if there is none
    text: str | None = "image/class/text"  # The class's name, bytes
    # The sample's name, bytes; if it is absent, shard and record name the sample
    key: str | None = "image/filename"
    label_type: str = "int"  # Form of the label, one of :data:`LABEL_TYPES`
    raw: bool = False  # Whether the image is raw pixels: uint8, one or three channels, rows from the top
    height: str | None = None  # Height of raw pixels, an integer
    width: str | None = None  # Width of raw pixels, an integer
    # Height, width and channels of raw pixels, if all images have the same
    shape: tuple[int, ...] | None = None
    # Common start of the names of objects, as in TensorFlow's object detection API; None to read no objects
    objects: str | None = "image/object"
    # Names of other parts, by the names of their columns in the index
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("label_type", self.label_type, LABEL_TYPES)
        sized = self.height or self.width or self.shape
        if sized and not self.raw:
            raise ConfigError("height, width and shape are for raw pixels", hint="Set raw=True as well.")
        if self.shape is not None and not is_pixel_shape(self.shape):
            raise ConfigError(
                f"shape must be height x width, and 1 or 3 channels, found {'x'.join(map(str, self.shape))}"
            )

    def raw_header(self, length: int, sides: tuple[int, ...] = ()) -> ImageHeader | None:
        """Return the header of raw pixels of ``length`` bytes; None if images are encoded."""
        # ``sides`` are height and width as the record states them.
        if not self.raw:
            return None
        if self.shape is None and not sides:
            raise SourceError(
                "a record of raw pixels does not state their size", hint="Name it, as shape 32x32x3."
            )
        return raw_header(length, self.shape or sides, any_channels=self.shape is None)

    def to_manifest(self) -> dict[str, str | bool | None]:
        """Return the options for a manifest: the first four, and all others that differ from the default."""
        options = {name: getattr(self, name) for name in ("encoded", "label", "text", "key")}
        options |= {name: value for name, value in vars(self).items() if value != getattr(_DEFAULT, name)}
        texts = {
            "shape": "x".join(map(str, self.shape or ())),
            "columns": ",".join(f"{name}={part}" for name, part in self.columns.items()),
        }
        return options | {name: text for name, text in texts.items() if text}

    @classmethod
    def from_manifest(cls, options: Mapping[str, Any]) -> FeatureNames:
        """Return the names that :meth:`to_manifest` wrote, without those of columns."""
        known = {name: options[name] for name in vars(_DEFAULT) if name in options and name != "columns"}
        if known.get("shape") is not None:
            known["shape"] = parse_shape(str(known["shape"]))
        return cls(**known)


_DEFAULT = FeatureNames()


def parse_shape(text: str) -> tuple[int, ...]:
    """Return the shape in a text such as 32x32x3."""
    if not re.fullmatch(r"\d{1,9}(x\d{1,9}){1,2}", text, re.ASCII):
        raise ConfigError(f"shape must be such as 32x32x3, found {text!r}")
    return tuple(map(int, text.split("x")))


@dataclass(frozen=True)
class ExternalObjects:
    """The M objects in a record of an external shard."""

    # Left, top, right, bottom of each, as shares of the image's width and height, not clipped
    boxes: Sequence[tuple[float, float, float, float]]
    labels: Sequence[int]  # Class of each, from 0
    area: Sequence[float] | None  # Pixels of each; None if the record does not state them
    crowd: Sequence[int]  # Whether each is a group of objects, 0 or 1
    flags: Mapping[str, Sequence[int]]  # Other numbers of each, 0 or 1, by name
    masks: Sequence[memoryview] = ()  # File of the mask of each; empty if the record has none


@dataclass(frozen=True)
class ExternalSample:
    """The image in a record of an external shard."""

    payload: Span  # Byte range of the encoded image in the record's value
    key: str = ""  # The sample's name; empty if the record has none
    label: Label | None = None  # The label; None if the record has none
    text: str = ""  # The name of a class that is a number; empty if the record has none
    # Size and codec of raw pixels, which the record states; None for an encoded image, which has a header
    header: ImageHeader | None = None
    # Other numbers of classes, such as those of objects, with names that the record states
    named: Sequence[tuple[int, str]] = ()
    # Values of other columns; None for a value that the record lacks
    columns: Mapping[str, Value | None] = field(default_factory=dict)
    objects: ExternalObjects | None = None  # The objects; None if the record states no objects
    mask: Span | None = None  # Byte range of the file of its class mask; None if the record has none
    # Names of parts of the record that hold annotations or arrays and are not read
    unread: Sequence[str] = ()


def to_label(values: Sequence[float], label_type: str, what: str) -> Label:
    """Return the label that the numbers of a record state, in one of the forms of ``LABEL_TYPES``."""
    # ``what`` is the source of the numbers in errors, such as "the feature 'label'".
    if label_type == "shard":
        return 0  # the indexer sets it
    if label_type in ("one-hot", "multi-hot"):
        return _indexes_of_ones(values, label_type, what)
    if label_type == "first":
        values = values[:1]
    if len(values) > 1:
        _check_classes(values, what)
    if label_type == "several":
        return tuple(_whole(value, what) for value in values)
    if len(values) != 1:
        raise SourceError(
            f"{what} must be one number, found {len(values)}",
            hint="Name the form of the label with label_type: first, several, one-hot or multi-hot.",
        )
    return float(values[0]) if label_type == "float" else _whole(values[0], what)


def _check_classes(values: Sequence[float], what: str) -> None:
    """Raise SourceError for boxes or other numbers that are not classes."""
    # MXNet's detection records (mx.image.ImageDetIter): the lengths of the header and of an object, the rest
    # of the header, and of each object its class, and left, top, right, bottom as shares of the image.
    head, each = (int(value) if float(value).is_integer() else 0 for value in values[:2])
    is_detection = head > 1 and each > 4 and len(values) > head and (len(values) - head) % each == 0
    for at in range(head, len(values), each) if is_detection else ():
        left, top, right, bottom = values[at + 1 : at + 5]
        is_detection &= -0.1 <= left < right <= 1.1 and -0.1 <= top < bottom <= 1.1
    if is_detection:
        raise SourceError(
            f"{what} has the boxes of MXNet's detection records, which are not read",
            hint="Convert the annotations that the records were made of, as COCO, VOC or YOLO, or write "
            "images and boxes with stoker.Writer.",
        )
    if broken := [value for value in values if not float(value).is_integer()]:
        raise SourceError(
            f"{what} must be numbers of classes, found {len(values)} numbers such as {broken[0]:g}",
            hint="With label_type first, the label is the first number. Name no label to leave them out; "
            "stoker.Writer writes vectors as an array column.",
        )


def _whole(value: float, what: str) -> int:
    if value < 0:
        raise SourceError(
            f"{what} must be 0 or more, found {value:g}",
            hint="Leave out samples without a class, or give label_type float for numbers that are no class.",
        )
    if isinstance(value, int):
        return value
    if not value.is_integer():
        raise SourceError(
            f"{what} must be one integer, found {value:g}",
            hint="With label_type float, the label is a number that is not a class.",
        )
    return int(value)


def _indexes_of_ones(values: Sequence[float], label_type: str, what: str) -> Label:
    if other_values := [value for value in values if value not in (0, 1)]:
        raise SourceError(
            f"{what} must be {label_type}, with numbers 0 and 1, found {other_values[0]:g}",
            hint="Name another form of the label (label_type), or another label.",
        )
    ones = tuple(index for index, value in enumerate(values) if value == 1)
    if label_type == "multi-hot":
        return ones
    if len(ones) != 1:
        hint = "With label_type multi-hot, a sample may have several classes."
        raise SourceError(
            f"{what} must be one-hot, with one 1, found {len(ones)} among {len(values)} numbers",
            hint=hint if ones else "Name another label, or none.",
        )
    return ones[0]
