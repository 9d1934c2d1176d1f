"""From a file of the source to what a shard holds of it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image

from stoker import _native

from ...codecs.codec import Codec
from ...codecs.decode import decode_other
from ...containers.example import Feature, encode_datum, encode_example, encode_image_example
from ...sources.source_reader import SkippedError, check_image
from ..options import QUALITY, SUBSAMPLING
from .object_features import object_features

if TYPE_CHECKING:
    from ...codecs.header import Header
    from ...dataset.annotations import Annotations
    from ..options import ConvertOptions

__all__ = ["EncodedImage", "Sample", "around", "encode_image"]

# Of these check_image() sees without decoding them that they are whole.
_TELL_DAMAGE = (Codec.JPEG, Codec.PNG, Codec.WEBP)


class EncodedImage(NamedTuple):
    """An image as it is stored.

    Attributes:
        payload: The bytes; for raw pixels (height, width, 3) uint8 RGB.
        codec: How they are encoded.
        height: Pixels, after the EXIF orientation has been applied.
        width: Likewise.
        orientation: EXIF orientation that is still to be applied, 1 to 8.
        source: Height and width of the image in the source, after its EXIF orientation.
    """

    payload: bytes
    codec: Codec
    height: int
    width: int
    orientation: int
    source: tuple[int, int]


class Sample(NamedTuple):
    """What a record says of its image.

    Attributes:
        key: Path of the image relative to the source.
        labels: Of the sample: one as a rule; None where it has none of its own.
        objects: What the image shows, in pixels of the image as it is stored; None where nobody says.
        mask: Encoded mask, if it has one.
    """

    key: str
    labels: tuple[int, ...] | None
    objects: Annotations | None = None
    mask: bytes | None = None


def encode_image(data: bytes, options: ConvertOptions) -> EncodedImage:
    """Encode an image as the options say; as it is where they ask for nothing.

    Raises:
        SkippedError: The image is broken or too large.
    """
    header = check_image(data, options.max_pixels)
    target = _target(header.codec, options)
    try:
        is_fine = options.mode == "none" and target == header.codec and not options.compresses_again
        if options.keeps_bytes or is_fine:
            if header.codec not in _TELL_DAMAGE:
                decode_other(data)
            size = (header.height, header.width)
            return EncodedImage(data, header.codec, *size, header.orientation, size)
        return _transcode(data, header, target, options)
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken image", str(error)) from error


def _target(codec: Codec, options: ConvertOptions) -> Codec:
    if options.encoding != "keep":
        return Codec[options.encoding.upper()]
    # Of the codecs that are read and not written, WebP mostly holds photographs and the others do not.
    return Codec.JPEG if codec in (Codec.JPEG, Codec.WEBP) else Codec.PNG


def _transcode(data: bytes, header: Header, target: Codec, options: ConvertOptions) -> EncodedImage:
    rules = (
        options.mode,
        options.height,
        options.width,
        "jpeg" if target == Codec.JPEG else "raw",
        QUALITY if options.quality is None else options.quality,
        options.subsampling or SUBSAMPLING,
        options.max_pixels,
    )
    if header.codec == Codec.JPEG:
        payload, height, width = _native.transcode(data, *rules)
    else:
        payload, height, width = _native.transcode_pixels(decode_other(data), *rules)
    if target == Codec.PNG:
        stream = io.BytesIO()
        Image.frombytes("RGB", (width, height), payload).save(stream, "PNG")
        payload = stream.getvalue()
    return EncodedImage(payload, target, height, width, 1, (header.height, header.width))


def around(
    container: str, sample: Sample, image: EncodedImage, classes: tuple[str, ...], keypoints: tuple[str, ...]
) -> tuple[bytes, bytes]:
    """What a record has before and after its payload: an Example, or in LMDB a Datum of the first label.

    Args:
        container: tfrecord or lmdb.
        sample: What is known of the image.
        image: The payload.
        classes: Names of the labels; empty where they have none.
        keypoints: Names of an object's keypoints; likewise.
    """
    size = len(image.payload)
    labels = sample.labels
    if container == "lmdb":
        return encode_datum(
            payload_bytes=size,
            height=image.height,
            width=image.width,
            label=labels[0] if labels else None,
            mask=sample.mask,
        )
    if labels is not None and len(labels) == 1 and sample.objects is None and sample.mask is None:
        return encode_image_example(
            payload_bytes=size,
            format=image.codec.name,
            height=image.height,
            width=image.width,
            key=sample.key,
            orientation=image.orientation,
            label=labels[0],
            class_name=classes[labels[0]] if classes else None,
        )
    features: dict[str, Feature] = {
        "image/channels": [3],
        "image/filename": sample.key.encode(),
        "image/format": image.codec.name.encode(),
        "image/height": [image.height],
        "image/orientation": [image.orientation],
        "image/width": [image.width],
    }
    if labels is not None:
        features["image/class/label"] = labels
        if classes:
            features["image/class/text"] = [classes[label].encode() for label in labels]
    if sample.objects is not None:
        features |= object_features(sample.objects, image.height, image.width, classes, keypoints)
    if sample.mask is not None:
        features |= {"image/segmentation/class/encoded": sample.mask}
        features |= {"image/segmentation/class/format": b"png"}
    return encode_example(features, "image/encoded", size)
