"""One record of somebody else's: where its image lies, what it is called and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.errors import CorruptRecordError, SourceError

from ..codecs.codec import Codec
from ..codecs.header import Header, read_header
from ..containers.example import parse_datum, parse_example
from ..containers.wire import Span

if TYPE_CHECKING:
    from ..containers.base import Record

__all__ = ["ExternalSample", "FeatureNames", "read_example", "read_value"]

_Features = dict[str, list[Span] | list[int] | list[float]]


@dataclass(frozen=True)
class FeatureNames:
    """Names of the features of a tf.train.Example; the defaults are those of ImageNet.

    Attributes:
        encoded: The encoded image, bytes.
        label: The class, int64; None or absent from the records where there is none.
        text: The class's name, bytes.
        key: The sample's name, bytes; where it is absent, shard and record name the sample.
    """

    encoded: str = "image/encoded"
    label: str | None = "image/class/label"
    text: str | None = "image/class/text"
    key: str | None = "image/filename"


@dataclass(frozen=True)
class ExternalSample:
    """What a record holds.

    Attributes:
        payload: The encoded image, within the record's value.
        header: What the image says of itself.
        key: The sample's name; empty where the record has none.
        label: The class; None where the record has none.
        text: The class's name; empty where the record has none.
    """

    payload: Span
    header: Header
    key: str
    label: int | None
    text: str


def read_example(record: Record, names: FeatureNames) -> ExternalSample:
    """Read a record that holds a tf.train.Example.

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
    """Header of the image; of raw pixels, which have none, as the features of our own shards say it."""
    span = _span(features, "image/format")
    if span is not None and _bytes(record, span).upper() == b"RAW":
        sizes = [features.get(f"image/{side}", []) for side in ("height", "width")]
        height, width = (size[0] if len(size) == 1 and isinstance(size[0], int) else 0 for size in sizes)
        if height < 1 or width < 1 or height * width * 3 != payload.length:
            raise SourceError(f"{payload.length} bytes of raw pixels are not {height} x {width} RGB")
        return Header(Codec.RAW, height, width, 1)
    return read_header(record.view[payload.offset : payload.offset + payload.length])


def read_value(record: Record) -> ExternalSample:
    """Read a record that holds a Caffe Datum or an encoded image.

    Raises:
        SourceError: It is a Datum of pixels that are neither grey nor colours, or of floats.
        DecodeError: The image's header cannot be read.
    """
    key = record.key.decode(errors="backslashreplace")
    try:
        datum = parse_datum(record.view)
    except CorruptRecordError:
        datum = None
    if datum is None or (datum.data is None and not datum.floats):
        whole = Span(0, record.length)
        return ExternalSample(whole, read_header(record.view), key, None, "")
    planar = datum.data is not None and datum.channels * datum.height * datum.width == datum.data.length
    if datum.data is None or (planar and not datum.encoded and datum.channels not in {1, 3}):
        kind = "floats" if datum.data is None else f"pixels of {datum.channels} channels"
        raise SourceError(
            f"the Datum holds {kind}, neither grey nor colours of 8 bits, nor an encoded image",
            hint="images are read from what Caffe's convert_imageset writes, with --encoded or without",
        )
    if planar and not datum.encoded:
        header = Header(Codec.PLANES, datum.height, datum.width, 1)
    else:
        header = read_header(record.view[datum.data.offset : datum.data.offset + datum.data.length])
    return ExternalSample(datum.data, header, key, datum.label, "")
