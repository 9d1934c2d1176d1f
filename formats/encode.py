"""From a file of the source to what a shard holds of it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from stoker import _native
from stoker.formats.example import Feature, encode_datum, encode_example, encode_image_example
from stoker.formats.header import open_image
from stoker.formats.intake import SkippedError, check_image, read_source
from stoker.formats.samples import Codec

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.formats.options import ConvertOptions

__all__ = ["Encoded", "EncodedImage", "SourceFile", "around", "decode_rgb", "encode_file", "encode_image"]


class SourceFile(NamedTuple):
    """A file of the source.

    Attributes:
        key: Its path relative to the source.
        size: Bytes that it had when it was listed.
        labels: Of the sample; one as a rule.
    """

    key: str
    size: int
    labels: tuple[int, ...]


class EncodedImage(NamedTuple):
    """An image as it is stored.

    Attributes:
        payload: The bytes; for raw pixels (height, width, 3) uint8 RGB.
        codec: How they are encoded.
        height: Pixels, after the EXIF orientation has been applied.
        width: Likewise.
        orientation: EXIF orientation that is still to be applied, 1 to 8.
    """

    payload: bytes
    codec: Codec
    height: int
    width: int
    orientation: int


class Encoded(NamedTuple):
    """A record: the image, and what the message has before and after it."""

    image: EncodedImage
    prefix: bytes
    suffix: bytes


def encode_file(root: str, file: SourceFile, classes: tuple[str, ...], options: ConvertOptions) -> Encoded:
    """Read a file of the source and encode it as a record.

    Args:
        root: The source's folder, resolved.
        file: The file.
        classes: Names of the labels; empty where they have none.
        options: How to encode.

    Raises:
        SkippedError: The file is left out.
    """
    image = encode_image(read_source(root, file.key, file.size), options)
    return Encoded(image, *around(options.container, file.key, image, file.labels, classes))


def encode_image(data: bytes, options: ConvertOptions) -> EncodedImage:
    """Encode an image as the options say; as it is where they ask for nothing.

    Raises:
        SkippedError: The image is broken or too large.
    """
    header = check_image(data, options.max_pixels)
    target = _target(header.codec, options)
    if options.keeps_bytes or (options.mode == "none" and target == header.codec):
        return EncodedImage(data, header.codec, header.height, header.width, header.orientation)
    try:
        return _transcode(data, header.codec, target, options)
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken image", str(error)) from error


def _target(codec: Codec, options: ConvertOptions) -> Codec:
    if options.encoding != "keep":
        return Codec[options.encoding.upper()]
    # Of the codecs that are read and not written, WebP mostly holds photographs and the others do not.
    return Codec.JPEG if codec in (Codec.JPEG, Codec.WEBP) else Codec.PNG


def _transcode(data: bytes, codec: Codec, target: Codec, options: ConvertOptions) -> EncodedImage:
    rules = (
        options.mode,
        options.height,
        options.width,
        "jpeg" if target == Codec.JPEG else "raw",
        options.quality,
        options.subsampling,
        options.max_pixels,
    )
    if codec == Codec.JPEG:
        payload, height, width = _native.transcode(data, *rules)
    else:
        payload, height, width = _native.transcode_pixels(decode_rgb(data), *rules)
    if target == Codec.PNG:
        stream = io.BytesIO()
        Image.frombytes("RGB", (width, height), payload).save(stream, "PNG")
        payload = stream.getvalue()
    return EncodedImage(payload, target, height, width, 1)


def decode_rgb(data: bytes) -> npt.NDArray[np.uint8]:
    """Decode an image with Pillow: (H, W, 3) uint8 RGB, its EXIF orientation applied."""
    with open_image(data) as image:
        return np.array(ImageOps.exif_transpose(image).convert("RGB"))


def around(
    container: str, key: str, image: EncodedImage, labels: tuple[int, ...], classes: tuple[str, ...]
) -> tuple[bytes, bytes]:
    """What a record has before and after its payload: an Example, or in LMDB a Datum of the first label."""
    size = len(image.payload)
    if container == "lmdb":
        return encode_datum(
            payload_bytes=size,
            height=image.height,
            width=image.width,
            label=labels[0] if labels else None,
        )
    if len(labels) == 1:
        return encode_image_example(
            payload_bytes=size,
            format=image.codec.name,
            height=image.height,
            width=image.width,
            key=key,
            orientation=image.orientation,
            label=labels[0],
            class_name=classes[labels[0]] if classes else None,
        )
    features: dict[str, Feature] = {
        "image/channels": [3],
        "image/class/label": labels,
        "image/filename": key.encode(),
        "image/format": image.codec.name.encode(),
        "image/height": [image.height],
        "image/width": [image.width],
        "image/orientation": [image.orientation],
    }
    return encode_example(features, "image/encoded", size)
