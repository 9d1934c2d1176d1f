"""Encoding one image of a source for a shard: checked, resized and in the encoding that is asked for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stoker import _native

from ...codecs.codec import Codec
from ...codecs.decode import decode_rgb
from ...codecs.registry import CODECS
from ...codecs.transcode import TranscodeRules, target_codec, transcode
from ...containers.messages.image_record import ImageRecord
from ...sources.source_reader import SkippedError, check_image
from ..options import QUALITY, SUBSAMPLING
from .object_features import object_features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...codecs.header import Header
    from ...dataset.columns.annotations import Annotations
    from ..options import ConvertOptions

__all__ = ["EncodedImage", "Sample", "encode_image", "image_record"]


class EncodedImage(NamedTuple):
    """An image as it is stored.

    Attributes:
        payload: The encoded image; for raw pixels (height, width, 3) uint8 RGB.
        codec: Its encoding.
        height: Height in pixels, after the EXIF orientation has been applied.
        width: Width in pixels, likewise.
        orientation: EXIF orientation that readers must still apply, 1 to 8.
        source: Height and width of the image in the source, after its EXIF orientation.
        unmarked: Why a JPEG has no restart markers although they were asked for, and a detail; or None.
    """

    payload: bytes
    codec: Codec
    height: int
    width: int
    orientation: int
    source: tuple[int, int]
    unmarked: tuple[str, str] | None = None


class Sample(NamedTuple):
    """The facts about an image that its record holds.

    Attributes:
        key: Path of the image relative to the source.
        labels: Labels of the sample, mostly one; None where the source has no labels of samples.
        objects: Objects in pixels of the stored image; None where the source has no objects.
        mask: Encoded mask, if the image has one.
    """

    key: str
    labels: tuple[int, ...] | None
    objects: Annotations | None = None
    mask: bytes | None = None


def encode_image(data: bytes, options: ConvertOptions) -> EncodedImage:
    """Encode an image as the options ask; without such options its bytes stay as they are.

    Raises:
        SkippedError: The image is broken or too large.
    """
    header = check_image(data, options.max_pixels)
    target = target_codec(header.codec, options.encoding)
    try:
        is_as_asked = options.mode == "none" and target == header.codec and not options.compresses_again
        if options.keeps_images or is_as_asked:
            if CODECS[header.codec].damage is None:  # decoding alone shows whether it is whole
                decode_rgb(data, header.codec, header.height, header.width)
            return _kept(data, header, restarts=bool(options.restarts))
        return _transcode(data, header, target, options)
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken image", str(error)) from error


def _kept(data: bytes, header: Header, *, restarts: bool) -> EncodedImage:
    """Return an image as it is, or, where it is a JPEG and ``restarts``, the same with restart markers."""
    size = (header.height, header.width)
    marked, reason, detail = None, "", ""
    if restarts and header.codec == Codec.JPEG:
        marked, reason, detail = _native.mark_restarts(data)
    unmarked = (reason, detail) if reason else None
    return EncodedImage(marked or data, header.codec, *size, header.orientation, size, unmarked)


def _transcode(data: bytes, header: Header, target: Codec, options: ConvertOptions) -> EncodedImage:
    rules = TranscodeRules(
        mode=options.mode,
        height=options.height,
        width=options.width,
        quality=QUALITY if options.quality is None else options.quality,
        subsampling=options.subsampling or SUBSAMPLING,
        max_pixels=options.max_pixels,
        restarts=bool(options.restarts),
    )
    payload, height, width = transcode(data, header.codec, target, rules)
    return EncodedImage(payload, target, height, width, 1, (header.height, header.width))


def image_record(
    sample: Sample, image: EncodedImage, classes: Sequence[str], keypoints: tuple[str, ...]
) -> ImageRecord:
    """The contents of an image's record, from which each container takes those that it can hold.

    Args:
        sample: The facts about the image.
        image: The encoded image, which is the payload.
        classes: Names of the labels; empty where they have none.
        keypoints: Names of an object's keypoints; empty where they have none.
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
