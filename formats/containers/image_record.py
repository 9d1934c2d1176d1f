"""Images in records: what a conversion writes of an image, and what an external record says of one."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the types of fields are read at run time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..codecs.header import Header
    from .example import Feature
    from .wire import Span

__all__ = ["ExternalSample", "FeatureNames", "ImageRecord", "LeftOutError", "StoredArray", "Value"]

Value = int | float | str
"""A value of a column of an external sample."""


class LeftOutError(Exception):
    """The reason to leave a record out and to count it, in words that many records share."""


@dataclass(frozen=True)
class ImageRecord:
    """An image of a conversion and all that its record may say of it.

    Attributes:
        key: Path of the image relative to the source.
        payload_bytes: Length of the encoded image.
        format: Name of its codec, such as JPEG; RAW for (height, width, 3) uint8 RGB pixels.
        height: Pixels, after the EXIF orientation has been applied.
        width: Likewise.
        orientation: EXIF orientation of the encoded image, 1 to 8.
        labels: Labels of the sample, from 0; None where it has none of its own.
        classes: Names of the labels; empty where they have none.
        objects: Returns the features of the image's objects; None where the source knows of none.
        mask: Encoded mask, PNG; None where there is none.
    """

    key: str
    payload_bytes: int
    format: str
    height: int
    width: int
    orientation: int = 1
    labels: tuple[int, ...] | None = None
    classes: Sequence[str] = ()
    objects: Callable[[], Mapping[str, Feature]] | None = None
    mask: bytes | None = None


@dataclass(frozen=True)
class StoredArray:
    """An array of the user's beside the image of a record.

    Attributes:
        name: Name of its column.
        dtype: NumPy's name of its element type.
        shape: Its shape.
        data: Its elements in C order, little-endian.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class FeatureNames:
    """Names of the parts of a record; the defaults are ImageNet's names of features of a tf.train.Example.

    Attributes:
        encoded: The encoded image, bytes.
        label: The class, int64; None or absent from the records where there is none.
        text: The class's name, bytes.
        key: The sample's name, bytes; where it is absent, shard and record name the sample.
        columns: Names of further parts by the names of their columns of the index.
    """

    encoded: str = "image/encoded"
    label: str | None = "image/class/label"
    text: str | None = "image/class/text"
    key: str | None = "image/filename"
    columns: Mapping[str, str] = field(default_factory=dict)

    def to_manifest(self) -> dict[str, str | None]:
        """Return the names as options of a manifest."""
        columns = ",".join(f"{name}={part}" for name, part in self.columns.items())
        names = {name: value for name, value in vars(self).items() if name != "columns"}
        return names | ({"columns": columns} if columns else {})


@dataclass(frozen=True)
class ExternalSample:
    """The image in a record of an external shard.

    Attributes:
        payload: Where the encoded image lies within the record's value.
        header: Header of the image.
        key: The sample's name; empty where the record has none.
        label: The class, a number or a name; None where the record has none.
        text: The name of a class that is a number; empty where the record has none.
        columns: Values of further columns; None where the record lacks one.
    """

    payload: Span
    header: Header
    key: str
    label: int | str | None
    text: str
    columns: Mapping[str, Value | None] = field(default_factory=dict)
