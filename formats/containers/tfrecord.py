"""The container TFRecord: files of tf.train.Example, with an index for DALI beside each.

A file is a row of records: length, masked CRC of the length, value, masked CRC of the value. The format is
TensorFlow's (tensorflow/core/lib/io/record_writer.h, TensorFlow 2.21): lengths are uint64 and checksums
uint32, both little-endian. The value is an image with the feature names of ImageNet's TFRecord files
(research/slim/datasets/build_imagenet_data.py in tensorflow/models) and, for objects, of TensorFlow's object
detection API (research/object_detection/data_decoders/tf_example_decoder.py there).
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np

from stoker._native import crc32c
from stoker.arguments import some_of
from stoker.errors import SourceError

from ..codecs.codec import raw_header
from ..files import FileDigests, digest_of, open_regular, read_at
from .container import BadShardError, Container, ReadStart, Record, Sidecar, Writing, WrittenShard, read_whole
from .image_record import (
    ExternalObjects,
    ExternalSample,
    FeatureNames,
    ImageRecord,
    Label,
    StoredArray,
    Value,
    to_label,
)
from .protobuf import Feature, Span, encode_example, parse_example

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_FRAMING = _HEADER.size + _FOOTER.size
_BUFFER = 1 << 20
# A protocol buffer message is shorter than 2 GiB: a sparse file cannot make a reader allocate more.
_LONGEST = (1 << 31) - 1

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_CROWDS = ("is_crowd", "group_of")
_FLAGS = ("difficult", "truncated")
# Parts of objects that are no annotation to miss; create_pascal_tf_record.py writes a view for each.
_ATTRIBUTES = ("view", "occluded", "depiction", "weight", "class/confidence")
_SEGMENTATION = "image/segmentation"
_CLASS_MASK = f"{_SEGMENTATION}/class"
_MOST_SHARE = 1.1
"""The largest coordinate that the API accepts (``maximum_normalized_coordinate`` in core/box_list_ops.py)."""
_NO_ARRAY = "Leave it out of the columns. stoker.Writer writes arrays of numbers as array columns."
_NO_OBJECTS = "With objects set to '', the objects are left out."


def masked_crc(crc: int) -> int:
    """Return a CRC32C as TFRecord stores it: rotated right by 15 bits, plus 0xa282ead8."""
    # The formula is ``Mask`` in tensorflow/tsl (xla/tsl/lib/hash/crc32c.h).
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


# A line of the index of DALI's ``readers.tfrecord``: first byte and bytes of the record.
DALI_INDEX = Sidecar(".idx", "DALI", lambda at, size: b"%d %d\n" % (at - _HEADER.size, size + _FRAMING))


class TFRecordWriter:
    """Writes one TFRecord shard and its DALI index; a :class:`.container.ShardWriter`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._path.open("xb", buffering=_BUFFER)
        self._size = 0
        self._crc = 0
        self._sha256 = hashlib.sha256()
        self._index = bytearray()
        # For each payload. A shard may have millions, so these are the smallest types that hold the numbers.
        self._offsets, self._lengths, self._checksums = array("q"), array("I"), array("I")

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        # Closing flushes again, but the error of a full disk was raised before.
        with suppress(OSError):
            self._file.close()

    def write(self, key: bytes, prefix: bytes, payload: Any, suffix: bytes) -> None:
        size = memoryview(payload).nbytes
        length = len(prefix) + size + len(suffix)
        if length > _LONGEST:
            raise ValueError(f"a record holds at most {_LONGEST} bytes, found {length}")
        length_bytes = struct.pack("<Q", length)
        header = length_bytes + _FOOTER.pack(masked_crc(crc32c(length_bytes)))
        value_crc = crc32c(suffix, crc32c(payload, crc32c(prefix)))
        self._index += DALI_INDEX.entry(self._size + _HEADER.size, length)
        self._offsets.append(self._size + len(header) + len(prefix))
        self._lengths.append(size)
        self._checksums.append(crc32c(payload))
        for part in (header + prefix, payload, suffix + _FOOTER.pack(masked_crc(value_crc))):
            self._file.write(part)
            self._crc = crc32c(part, self._crc)
            self._sha256.update(part)
        self._size += length + _FRAMING

    def finish(self) -> WrittenShard:
        self._file.close()
        index = self._path.with_name(DALI_INDEX.name(self._path.name))
        index.write_bytes(self._index)
        return WrittenShard(
            files=(self._path, index),
            data_bytes=self._size,
            records=len(self._offsets),
            digests=FileDigests(digest_of(self._crc), self._sha256.hexdigest()),
            offset=np.array(self._offsets, np.int64),
            length=np.array(self._lengths, np.int64),
            crc=np.array(self._checksums, np.uint32),
        )


def scan(path: Path) -> Iterator[Record]:
    """Yield the records of a TFRecord file; every length and every checksum is checked."""
    # A length is compared with the size of the file before anything is allocated for it.
    number = 0
    with open_regular(path) as (descriptor, size):
        try:
            offset = 0
            while offset < size:
                header = read_at(descriptor, offset, _HEADER.size)
                length = _value_length(header, size - offset)
                offset += _HEADER.size
                body = read_whole(descriptor, offset, length + _FOOTER.size)
                view = memoryview(body)[:length]
                if masked_crc(crc32c(view)) != _FOOTER.unpack_from(body, length)[0]:
                    raise BadShardError("the value's checksum does not match")
                yield Record(number, b"", offset, length, view)
                offset += length + _FOOTER.size
                number += 1
        except BadShardError as error:
            if number == 0:  # TensorFlow compresses with GZIP or ZLIB
                from .compression import blame_compression

                blame_compression(error, read_at(descriptor, 0, _HEADER.size), path.name, may_be_zlib=True)
            raise error.about(number, path) from error


def _value_length(header: bytes, left: int) -> int:
    if len(header) < _HEADER.size or left < _FRAMING:
        raise BadShardError(f"the file ends within a record, {left} bytes after its start")
    length, crc = _HEADER.unpack(header)
    if masked_crc(crc32c(header[:8])) != crc:
        raise BadShardError(
            "the length's checksum does not match", "The file is damaged, or it is not a TFRecord file."
        )
    if length > min(left - _FRAMING, _LONGEST):
        raise BadShardError(f"the record claims {length} bytes where {left - _FRAMING} are left")
    return int(length)


def _recognizes(read_start: ReadStart) -> bool:
    header = read_start("", _HEADER.size)
    return (
        header is not None
        and len(header) == _HEADER.size
        and masked_crc(crc32c(header[:8])) == _HEADER.unpack(header)[1]
    )


def wrap_image(image: ImageRecord) -> tuple[bytes, bytes]:
    """Return the bytes of an Example before and after an encoded image."""
    labels, classes = image.labels, image.classes
    features: dict[str, Feature] = {
        "image/channels": 3,
        "image/filename": image.key.encode(),
        "image/format": image.format,
        "image/height": image.height,
        "image/width": image.width,
    }
    has_one_label = labels is not None and len(labels) == 1 and image.objects is None and image.mask is None
    if image.orientation != 1 or not has_one_label:  # the shards of all versions have equal bytes
        features["image/orientation"] = image.orientation
    if labels is not None:
        features["image/class/label"] = labels[0] if len(labels) == 1 else labels
        if classes:
            names = [classes[label] for label in labels]
            features["image/class/text"] = names[0] if len(names) == 1 else [name.encode() for name in names]
    if image.objects is not None:
        features |= image.objects()
    if image.mask is not None:
        features |= {"image/segmentation/class/encoded": image.mask, "image/segmentation/class/format": "png"}
    return encode_example(features, "image/encoded", image.payload_bytes)


def wrap_array(array: StoredArray) -> tuple[bytes, bytes]:
    """Return the bytes of further features of an Example before the bytes of an array and after them."""
    # An array has three features: its bytes by its name, and ``NAME/shape`` and ``NAME/dtype``. These are a
    # separate message ``Features``: a protocol buffer may state a field in parts, which every parser merges.
    described: dict[str, Feature] = {
        f"{array.name}/dtype": array.dtype,
        f"{array.name}/shape": list(array.shape),
    }
    before, after = encode_example({}, array.name, len(array.data))
    return encode_example(described)[0] + before, after


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    """Find the image in a record that holds a tf.train.Example, by the names of its features."""
    features = _Features(record)
    payload = features.span(names.encoded)
    if payload is None:
        raise SourceError(
            f"the record has no bytes in the feature {names.encoded!r}",
            hint="Name the feature that holds the encoded image (encoded), one of: "
            f"{some_of(sorted(features.values)) or 'none, the record is empty'}.",
        )
    if (images := len(features.values[names.encoded])) > 1:
        raise SourceError(
            f"the feature {names.encoded!r} holds {images} images, and a sample has one",
            hint="Name another feature for the image, or write a record for each image.",
        )
    label, texts = _label(features, names), features.texts(names.text)
    named = _named(label if isinstance(label, tuple) else (), texts)
    objects = _objects(features, names.objects) if names.objects else None
    if objects is not None:
        named += _named(objects.labels, features.texts(f"{names.objects}/class/text"))
    sides = features.sides(names.height or "height", names.width or "width")
    header = names.raw_header(payload.length, sides)
    if header is None and [text.upper() for text in features.texts("image/format")] == ["RAW"]:
        sides = features.sides("image/height", "image/width")  # as conversions write them
        header = raw_header(payload.length, (*sides, 3))
    return ExternalSample(
        payload=payload,
        key=next(iter(features.texts(names.key)), ""),
        label=label,
        text=texts[0] if texts else "",
        header=header,
        named=named,
        columns={name: features.value(part) for name, part in names.columns.items()},
        objects=objects,
        mask=features.span(f"{_CLASS_MASK}/encoded"),
        unread=_unread(features, names, objects),
    )


def _unread(features: _Features, names: FeatureNames, objects: ExternalObjects | None) -> list[str]:
    """Return names of features, or their common start, of annotations and arrays that are not read."""
    read, groups = set(names.columns.values()), dict.fromkeys([_SEGMENTATION, names.objects or ""])
    read |= {f"{_CLASS_MASK}/encoded", f"{_CLASS_MASK}/format"}
    if objects is not None:
        parts = (
            *(f"bbox/{side}" for side in _SIDES),
            "class/label",
            "class/text",
            "area",
            *_CROWDS,
            *_FLAGS,
            *_ATTRIBUTES,
            *(("mask",) if objects.masks else ()),
        )
        read |= {f"{names.objects}/{part}" for part in parts}
    unread = set()
    for name, values in features.values.items():
        if not values or name in read:
            continue
        if {f"{name}/shape", f"{name}/dtype"} <= features.values.keys():
            unread.add(f"array in the feature {name!r}")
        for group in filter(None, groups):
            if name.startswith(f"{group}/"):
                part = name[len(group) + 1 :].partition("/")[0]
                unread.add(f"annotation in the feature '{group}/{part}'")
    return sorted(unread)


class _Features:
    """The features of a record."""

    def __init__(self, record: Record) -> None:
        self.values = parse_example(record.view)
        self._record = record

    def span(self, name: str) -> Span | None:
        return next((value for value in self.values.get(name, []) if isinstance(value, Span)), None)

    def files(self, name: str) -> list[memoryview]:
        spans = [value for value in self.values.get(name, []) if isinstance(value, Span)]
        return [span.of(self._record.view) for span in spans]

    def texts(self, name: str | None) -> list[str]:
        return [bytes(file).decode(errors="backslashreplace") for file in self.files(name or "")]

    def numbers(self, name: str) -> list[float] | None:
        """Return the numbers of a feature; None for a feature that holds bytes."""
        values = self.values[name]
        return None if any(isinstance(value, Span) for value in values) else cast("list[float]", values)

    def value(self, name: str) -> Value | None:
        if (count := len(self.values.get(name, []))) > 1:
            raise SourceError(
                f"the feature {name!r} holds {count} values, and a column has one for each sample",
                hint=_NO_ARRAY,
            )
        try:
            texts = [str(file, "utf-8") for file in self.files(name)]
        except UnicodeDecodeError as error:
            message = f"the feature {name!r} holds bytes that are not text in UTF-8, such as numbers"
            raise SourceError(message, hint=_NO_ARRAY) from error
        return cast("Value | None", next(iter(texts or self.values.get(name, [])), None))

    def sides(self, height: str, width: str) -> tuple[int, int]:
        """Return height and width in two features; 0 if one is not an integer."""
        sizes = [self.values.get(name, []) for name in (height, width)]
        found = (size[0] if len(size) == 1 and isinstance(size[0], int) else 0 for size in sizes)
        return next(found), next(found)


def _label(features: _Features, names: FeatureNames) -> Label | None:
    name, may_be_empty = names.label, names.label_type in ("several", "multi-hot")
    if name is None or name not in features.values or not (features.values[name] or may_be_empty):
        return None
    if (values := features.numbers(name)) is None:
        raise SourceError(
            f"the feature {name!r} must be one integer, found bytes",
            hint="Name another feature for the label, or none.",
        )
    return to_label(values, names.label_type, f"the feature {name!r}")


def _named(labels: Sequence[int], texts: list[str]) -> list[tuple[int, str]]:
    """Return labels with their names, if there are as many names."""
    return [pair for pair in zip(labels, texts, strict=True) if pair[1]] if len(labels) == len(texts) else []


def _objects(features: _Features, prefix: str) -> ExternalObjects | None:
    """Return the objects of a record; None if it states none. Classes of the API count from 1."""
    numbers: dict[str, list[float]] = {}
    for name in features.values:
        if name.startswith(f"{prefix}/") and (values := features.numbers(name)) is not None:
            numbers[name.removeprefix(f"{prefix}/")] = values
    # ImageNet's files have boxes without classes of objects.
    if not {*(f"bbox/{side}" for side in _SIDES)} <= numbers.keys():
        return None
    if "class/label" not in numbers:
        if numbers[f"bbox/{_SIDES[0]}"] and features.texts(f"{prefix}/class/text"):
            raise SourceError(
                "objects have the names of their classes in class/text, and no numbers in class/label",
                hint=f"Write class/label, which counts from 1. {_NO_OBJECTS}",
            )
        return None
    count = len(numbers[f"bbox/{_SIDES[0]}"])
    sides = [_of_each(numbers, f"bbox/{side}", count) for side in _SIDES]
    if any(not abs(share) <= _MOST_SHARE for side in sides for share in side):
        raise SourceError(
            "an object's box is not in shares of the image's width and height",
            hint=f"The object detection API divides boxes by the size of the image. {_NO_OBJECTS} "
            "stoker.convert reads annotations in pixels.",
        )
    labels = _of_each(numbers, "class/label", count)
    if wrong := [label for label in labels if not isinstance(label, int) or label < 1]:
        raise SourceError(
            f"an object has label {wrong[0]}, and the object detection API counts classes from 1",
            hint=_NO_OBJECTS,
        )
    area = _of_each(numbers, "area", count) if numbers.get("area") else None
    crowds = [_of_each(numbers, name, count) for name in _CROWDS if numbers.get(name)]
    flags = {name: _of_each(numbers, name, count) for name in _FLAGS if name in numbers}
    return ExternalObjects(
        boxes=list(zip(*sides, strict=True)),
        labels=[int(label) - 1 for label in labels],
        area=area,
        crowd=[int(any(values)) for values in zip([0] * count, *crowds, strict=True)],
        flags={name: [int(value != 0) for value in values] for name, values in flags.items()},
        masks=masks if len(masks := features.files(f"{prefix}/mask")) == count else (),
    )


def _of_each(numbers: Mapping[str, list[float]], name: str, count: int) -> list[float]:
    """Return a feature that has a number for each object."""
    values = numbers.get(name, [])
    if len(values) != count:
        raise SourceError(
            f"the objects contradict each other: {name} has {len(values)} numbers where bbox/{_SIDES[0]} has "
            f"{count}",
            hint=_NO_OBJECTS,
        )
    return values


TFRECORD = Container(
    name="tfrecord",
    recognizes=_recognizes,
    scan=scan,
    parse_image=parse_image,
    writing=Writing(suffix=".tfrecord", writer=TFRecordWriter, wrap_image=wrap_image, wrap_array=wrap_array),
    sidecars=(DALI_INDEX,),
    feature_names=FeatureNames(),
)
