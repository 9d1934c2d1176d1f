"""Images as tf.train.Example: the records of TFRecord shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from stoker.errors import SourceError

from ...codecs.codec import Codec
from ...codecs.header import ImageHeader, read_header
from ..base import Record
from ..parts.example_objects import parse_objects
from ..parts.labels import to_label
from ..parts.raw_pixels import raw_header
from .example import Feature, encode_example, encode_image_example, parse_example
from .image_record import (
    ExternalObjects,
    ExternalSample,
    FeatureNames,
    ImageRecord,
    Label,
    StoredArray,
    Value,
)
from .wire import Span

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
    separate message ``Features``: a protocol buffer may state a field in parts, which every parser merges.
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
    """Return the image in a record that holds a tf.train.Example, by the names of its features."""
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
    header = _example_header(record, features, names, payload)
    label = _label(features, names)
    texts = _texts(record, features, names.text)
    objects = _objects(features, names, header)
    return ExternalSample(
        payload=payload,
        header=header,
        key=next(iter(_texts(record, features, names.key)), ""),
        label=label,
        text=texts[0] if texts else "",
        named=[
            *_named(label if isinstance(label, tuple) else (), texts),
            *_named(
                objects.labels if objects else (),
                _texts(record, features, f"{names.objects}/class/text" if names.objects else None),
            ),
        ],
        columns={name: _value(record, features, part) for name, part in names.columns.items()},
        objects=objects,
    )


def _span(features: _Features, name: str | None) -> Span | None:
    values = features.get(name, []) if name is not None else []
    return values[0] if values and isinstance(values[0], Span) else None


def _texts(record: Record, features: _Features, name: str | None) -> list[str]:
    spans = features.get(name, []) if name is not None else []
    return [
        bytes(span.of(record.view)).decode(errors="backslashreplace")
        for span in spans
        if isinstance(span, Span)
    ]


def _numbers(features: _Features, name: str) -> list[float] | None:
    """Return the numbers of a feature; None for a feature that holds bytes."""
    values = features[name]
    return None if any(isinstance(value, Span) for value in values) else cast("list[float]", values)


def _label(features: _Features, names: FeatureNames) -> Label | None:
    name, empty = names.label, names.label_type in ("several", "multi-hot")
    if name is None or name not in features or not (features[name] or empty):
        return None
    if (values := _numbers(features, name)) is None:
        raise SourceError(
            f"the feature {name!r} is not one integer", hint="name another feature for the label, or none"
        )
    return to_label(values, names.label_type, f"the feature {name!r}")


def _value(record: Record, features: _Features, name: str) -> Value | None:
    """Return the number or the text in a feature; None if it is empty or absent."""
    values = features.get(name, [])
    if len(values) > 1:
        raise SourceError(
            f"the feature {name!r} holds {len(values)} values, and a column has one for each sample",
            hint="leave its --column out",
        )
    numbers = [value for value in values if not isinstance(value, Span)]
    return next(iter([*_texts(record, features, name), *numbers]), None)


def _named(labels: Sequence[int], texts: list[str]) -> list[tuple[int, str]]:
    """Return labels with their names, if there are as many names."""
    if len(labels) != len(texts):
        return []
    return [pair for pair in zip(labels, texts, strict=True) if pair[1]]


def _objects(features: _Features, names: FeatureNames, header: ImageHeader) -> ExternalObjects | None:
    if not names.objects:
        return None
    start = f"{names.objects}/"
    numbers: dict[str, list[float]] = {}
    for name in features:
        if name.startswith(start) and (values := _numbers(features, name)) is not None:
            numbers[name.removeprefix(start)] = values
    return parse_objects(numbers, header)


def _example_header(record: Record, features: _Features, names: FeatureNames, payload: Span) -> ImageHeader:
    """Return the header of the image; for raw pixels, features or the user state their size."""
    if names.shape is not None:
        return raw_header(payload.length, names.shape)
    if names.raw:
        sides = _sides(features, names.height or "height", names.width or "width")
        return raw_header(payload.length, sides, any_channels=True)
    span = _span(features, "image/format")
    if span is not None and bytes(span.of(record.view)).upper() == b"RAW":
        height, width = _sides(features, "image/height", "image/width")
        if height < 1 or width < 1 or height * width * 3 != payload.length:
            raise SourceError(f"{payload.length} bytes of raw pixels are not {height} x {width} RGB")
        return ImageHeader(Codec.RAW, height, width, 1)
    return read_header(payload.of(record.view))


def _sides(features: _Features, height: str, width: str) -> tuple[int, int]:
    """Return height and width in two features; 0 if one is not an integer."""
    sizes = [features.get(name, []) for name in (height, width)]
    found = (size[0] if len(size) == 1 and isinstance(size[0], int) else 0 for size in sizes)
    return next(found), next(found)
