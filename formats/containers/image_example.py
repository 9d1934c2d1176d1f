"""Images as tf.train.Example: the records of TFRecord shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import SourceError

from ..codecs.codec import Codec
from ..codecs.header import Header, read_header
from .example import encode_example, encode_image_example, parse_example
from .image_record import ExternalSample
from .wire import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .base import Record
    from .example import Feature
    from .image_record import FeatureNames, ImageRecord, StoredArray

__all__ = ["parse_image", "wrap_arrays", "wrap_image"]

_Features = dict[str, list[Span] | list[int] | list[float]]


def wrap_image(image: ImageRecord) -> tuple[bytes, bytes]:
    """Return the bytes of an Example before and after an encoded image.

    The names of the features are those of ImageNet's TFRecord files and, for objects, of TensorFlow's object
    detection API.
    """
    labels, classes = image.labels, image.classes
    if labels is not None and len(labels) == 1 and image.objects is None and image.mask is None:
        return encode_image_example(
            payload_bytes=image.payload_bytes,
            format=image.format,
            height=image.height,
            width=image.width,
            key=image.key,
            orientation=image.orientation,
            label=labels[0],
            class_name=classes[labels[0]] if classes else None,
        )
    features: dict[str, Feature] = {
        "image/channels": [3],
        "image/filename": image.key.encode(),
        "image/format": image.format.encode(),
        "image/height": [image.height],
        "image/orientation": [image.orientation],
        "image/width": [image.width],
    }
    if labels is not None:
        features["image/class/label"] = labels
        if classes:
            features["image/class/text"] = [classes[label].encode() for label in labels]
    if image.objects is not None:
        features |= image.objects()
    if image.mask is not None:
        features |= {"image/segmentation/class/encoded": image.mask}
        features |= {"image/segmentation/class/format": b"png"}
    return encode_example(features, "image/encoded", image.payload_bytes)


def wrap_arrays(arrays: Sequence[StoredArray]) -> tuple[bytes, list[int]]:
    """Return further features of an Example, with the offset of each array in them.

    An array has three features: its bytes by its name, and ``NAME/shape`` and ``NAME/dtype``. Each array is a
    message ``Features`` of its own: a protocol buffer may state a field in parts, which every parser merges.
    """
    parts, offsets, end = [], [], 0
    for array in arrays:
        described: dict[str, Feature] = {
            f"{array.name}/dtype": array.dtype.encode(),
            f"{array.name}/shape": list(array.shape),
        }
        before = encode_example(described)[0]
        around, after = encode_example({}, array.name, len(array.data))
        offsets.append(end + len(before) + len(around))
        parts += [before, around, array.data, after]
        end += len(before) + len(around) + len(array.data) + len(after)
    return b"".join(parts), offsets


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    """Return the image in a record that holds a tf.train.Example.

    Args:
        record: The record.
        names: Names of the features to read.

    Raises:
        SourceError: It lacks the encoded image, or its label is not one integer.
        DecodeError: The image's header cannot be read.
        CorruptRecordError: It is no Example.
    """
    features = parse_example(record.view)
    payload = _span(features, names.encoded)
    if payload is None:
        raise SourceError(
            f"the record has no bytes in the feature {names.encoded!r}",
            hint="name the feature that holds the encoded image, one of: "
            + (", ".join(sorted(features)) or "none, the record is empty"),
        )
    if (images := len(features[names.encoded])) > 1:
        raise SourceError(
            f"the feature {names.encoded!r} holds {images} images, and a sample has one",
            hint="name another feature for the image, or write a record for each image",
        )
    return ExternalSample(
        payload=payload,
        header=_example_header(record, features, payload),
        key=_text(record, features, names.key),
        label=_label(features, names.label),
        text=_text(record, features, names.text),
    )


def _span(features: _Features, name: str | None) -> Span | None:
    values = features.get(name, []) if name is not None else []
    return values[0] if values and isinstance(values[0], Span) else None


def _text(record: Record, features: _Features, name: str | None) -> str:
    span = _span(features, name)
    return "" if span is None else _bytes(record, span).decode(errors="backslashreplace")


def _bytes(record: Record, span: Span) -> bytes:
    return bytes(record.view[span.offset : span.offset + span.length])


def _label(features: _Features, name: str | None) -> int | None:
    if name is None or not (values := features.get(name)):
        return None
    if len(values) != 1 or not isinstance(values[0], int):
        raise SourceError(
            f"the feature {name!r} is not one integer", hint="name another feature for the label, or none"
        )
    return values[0]


def _example_header(record: Record, features: _Features, payload: Span) -> Header:
    """Return the header of the image; raw pixels have none, and the features of Stoker's shards give it."""
    span = _span(features, "image/format")
    if span is not None and _bytes(record, span).upper() == b"RAW":
        sizes = [features.get(f"image/{side}", []) for side in ("height", "width")]
        height, width = (size[0] if len(size) == 1 and isinstance(size[0], int) else 0 for size in sizes)
        if height < 1 or width < 1 or height * width * 3 != payload.length:
            raise SourceError(f"{payload.length} bytes of raw pixels are not {height} x {width} RGB")
        return Header(Codec.RAW, height, width, 1)
    return read_header(record.view[payload.offset : payload.offset + payload.length])
