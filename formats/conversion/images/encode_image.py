"""From a file of the source to what a shard holds of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...codecs.decode import decode_rgb
from ...codecs.registry import CODECS
from ...codecs.transcode import TranscodeRules, target_codec, transcode
from ...containers.image_record import ImageRecord
from ...sources.source_reader import SkippedError, check_image
from ..options import QUALITY, SUBSAMPLING
from .object_features import object_features

if TYPE_CHECKING:
    from ...codecs.codec import Codec
    from ...codecs.header import Header
    from ...dataset.annotations import Annotations
    from ..options import ConvertOptions

__all__ = ["EncodedImage", "Sample", "encode_image", "image_record"]


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
    target = target_codec(header.codec, options.encoding)
    try:
        is_fine = options.mode == "none" and target == header.codec and not options.compresses_again
        if options.keeps_bytes or is_fine:
            if CODECS[header.codec].damage is None:  # check_image() could not see whether it is whole
                decode_rgb(data, header.codec, header.height, header.width)
            size = (header.height, header.width)
            return EncodedImage(data, header.codec, *size, header.orientation, size)
        return _transcode(data, header, target, options)
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken image", str(error)) from error


def _transcode(data: bytes, header: Header, target: Codec, options: ConvertOptions) -> EncodedImage:
    rules = TranscodeRules(
        mode=options.mode,
        height=options.height,
        width=options.width,
        quality=QUALITY if options.quality is None else options.quality,
        subsampling=options.subsampling or SUBSAMPLING,
        max_pixels=options.max_pixels,
    )
    payload, height, width = transcode(data, header.codec, target, rules)
    return EncodedImage(payload, target, height, width, 1, (header.height, header.width))


def image_record(
    sample: Sample, image: EncodedImage, classes: tuple[str, ...], keypoints: tuple[str, ...]
) -> ImageRecord:
    """Return what the record of an image may say.

    Args:
        sample: What is known of the image.
        image: The payload.
        classes: Names of the labels; empty where they have none.
        keypoints: Names of an object's keypoints; likewise.
    """
    objects = sample.objects
    return ImageRecord(
        key=sample.key,
        payload_bytes=len(image.payload),
        format=image.codec.name,
        height=image.height,
        width=image.width,
        orientation=image.orientation,
        labels=sample.labels,
        classes=classes,
        objects=None
        if objects is None
        else partial(object_features, objects, image.height, image.width, classes, keypoints),
        mask=sample.mask,
    )
