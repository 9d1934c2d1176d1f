"""Encoding one image of a source for a shard: checked, resized and in the encoding that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker import _native
from stoker._native import crc32c, make_bands
from stoker.errors import ConfigError, StokerError

from ..codecs.codec import Codec, ImageHeader
from ..codecs.decode import TranscodeRules, decode_rgb, target_codec, transcode
from ..codecs.header import DAMAGE_CHECKS
from ..containers.container import find_writing
from ..containers.image_record import ImageRecord, StoredArray
from ..containers.protobuf import Feature
from ..dataset.annotations import AnnotationInfo, Annotations, to_columns
from ..dataset.columns import RANGE_TYPES, ListColumn, Origin
from ..dataset.index import BAND_COLUMNS
from ..sources.listing import Skip
from ..sources.source_reader import SkippedError, check_image
from .image_objects import Dropped, ResizeGeometry, fit_objects, resize_geometry

if TYPE_CHECKING:  # images without masks do not load it
    from .mask_values import MaskRules
from .options import QUALITY, SUBSAMPLING, ConvertOptions
from .plan import EncodedRecord


class EncodedImage(NamedTuple):
    """An image as it is stored."""

    payload: bytes  # The encoded image; for raw pixels (height, width, 3) uint8 RGB
    codec: Codec  # Its encoding
    height: int  # Height in pixels, after the EXIF orientation has been applied
    width: int  # Width in pixels, after it as well
    orientation: int  # EXIF orientation that the stored bytes have, 1 to 8
    source: tuple[int, int]  # Height and width of the image in the source, after its EXIF orientation
    # Why a JPEG has no restart markers although they were asked for, and a detail; or None
    unmarked: tuple[str, str] | None = None


def encode_image(data: bytes, options: ConvertOptions) -> EncodedImage:
    """Encode an image as the options ask; without such options its bytes stay as they are."""
    header = check_image(data, options.max_pixels)
    target = target_codec(header.codec, options.encoding)
    try:
        is_as_asked = options.mode == "none" and target == header.codec and not options.compresses_again
        if options.keeps_images or is_as_asked:
            if header.codec not in DAMAGE_CHECKS:  # only decoding shows whether it is whole
                decode_rgb(data, header.codec, header.height, header.width)
            return _kept(data, header, restarts=bool(options.restarts))
        return _transcode(data, header, target, options)
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken image", str(error)) from error


def _kept(data: bytes, header: ImageHeader, *, restarts: bool) -> EncodedImage:
    """Return an image as it is, or, where it is a JPEG and ``restarts``, the same with restart markers."""
    size = (header.height, header.width)
    marked, reason, detail = None, "", ""
    if restarts and header.codec == Codec.JPEG:
        marked, reason, detail = _native.mark_restarts(data)
    unmarked = (reason, detail) if reason else None
    return EncodedImage(marked or data, header.codec, *size, header.orientation, size, unmarked)


def _transcode(data: bytes, header: ImageHeader, target: Codec, options: ConvertOptions) -> EncodedImage:
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


_OBJECT = "image/object/"


def object_features(
    objects: Annotations, height: int, width: int, classes: Sequence[str], keypoints: Sequence[str]
) -> dict[str, Feature]:
    """Features of the objects of one image."""
    left, top, right, bottom = (objects.boxes / (width, height, width, height)).T.tolist()
    labels = objects.labels.tolist()
    features: dict[str, Feature] = {
        "bbox/xmin": left,
        "bbox/xmax": right,
        "bbox/ymin": top,
        "bbox/ymax": bottom,
        "class/label": [label + 1 for label in labels],
        "is_crowd": objects.crowd.astype(int).tolist(),
        "area": objects.area.tolist(),
    }
    if classes:
        features["class/text"] = [classes[label].encode() for label in labels]
    if objects.keypoints is not None:
        x, y, visibility = objects.keypoints.reshape(-1, 3).T
        features["keypoint/x"] = (x.astype(float) / width).tolist()
        features["keypoint/y"] = (y.astype(float) / height).tolist()
        features["keypoint/visibility"] = visibility.astype(int).tolist()
        features["keypoint/num"] = [len(points) for points in objects.keypoints]
        features["keypoint/text"] = [name.encode() for name in keypoints] * len(objects)
    return {_OBJECT + name: value for name, value in features.items()}


_PADDING = 255  # value of padding in masks without an ignore_index

ByteRange = tuple[int, int, int]
"""Bytes in a record: their offset from the end of the payload, their number, and their CRC32C."""


class ImageSample(NamedTuple):
    """An image's name, labels, objects, mask and arrays, which its record holds besides the pixels."""

    key: str  # Its name
    labels: tuple[int, ...] | None = None  # Its labels, mostly one; None where samples have none
    objects: Annotations | None = None  # Its objects, as the source has them; None where samples have none
    mask: bytes | None = None  # File of its mask; None where samples have none
    arrays: tuple[StoredArray, ...] = ()  # The user's arrays


class ImageColumns:
    """The columns that every image has; see :class:`stoker.formats.conversion.plan.IndexColumns`.

    :class:`stoker.formats.dataset.index.Samples` explains them.
    """

    sample_type = "image"
    attributes: ClassVar[Mapping[str, type[np.integer[Any]]]] = {
        "codec": np.uint8,
        "height": np.int32,
        "width": np.int32,
        "orientation": np.uint8,
    }


@dataclass(frozen=True)
class RecordRules:
    """The rules for all records of a dataset."""

    options: ConvertOptions  # How images are stored
    classes: Sequence[str]  # Names of the labels; empty where they have none
    info: AnnotationInfo  # Meaning of objects and masks
    relative: bool  # Whether coordinates of objects are shares of the image's width and height
    object_name: str  # Name of an object in messages, where ``{}`` stands for its id
    strict_error: Callable[[Skip], StokerError]  # Returns the error of a strict conversion
    # Whether the index has the coordinates of each image in the image of the source
    keeps_origins: bool = False

    @cached_property
    def masks(self) -> MaskRules:
        """The rules for all masks."""
        from .mask_values import MaskRules, mask_table

        info, text = self.info, self.options.mask_map
        return MaskRules(
            _PADDING if info.ignore is None else info.ignore,
            info.ignore,
            len(info.mask_classes),
            None if text in (None, "none") else mask_table(text, info.ignore),
        )


class RecordDetails(NamedTuple):
    """What the columns of the index need of a record, besides its payload."""

    objects: Annotations | None
    mask: ByteRange
    arrays: tuple[ByteRange, ...]
    bands: npt.NDArray[np.uint32]
    origin: Origin


def encode_record(sample: ImageSample, image: EncodedImage, rules: RecordRules) -> EncodedRecord:
    """Return the record of an encoded image; objects and mask are checked and resized with it."""
    # The record's details are :class:`RecordDetails`; None if there are neither objects nor mask nor arrays
    # nor origins, and images get no restart markers.
    options = rules.options
    geometry = resize_geometry(options.mode, options.height, options.width, image.source)
    objects, skipped = _fit(sample, image, geometry, rules)
    if image.unmarked is not None:
        reason, detail = image.unmarked
        skipped = (*skipped, Skip(sample.key, f"restart markers ({reason})", detail))
    mask = None
    if sample.mask is not None:
        from .mask_values import encode_mask

        mask = encode_mask(sample.mask, image.source, geometry, rules.masks, options.max_pixels)
    stored = _image_record(sample._replace(objects=objects, mask=mask), image, rules)
    prefix, suffix = find_writing(options.container).wrap_image(stored)
    mask_range = (0, 0, 0) if mask is None else (suffix.index(mask), len(mask), crc32c(mask))
    array_ranges: tuple[ByteRange, ...] = ()
    if sample.arrays:
        data, array_ranges = _wrap_arrays(options.container, sample.arrays, len(suffix))
        suffix += data
    has_details = objects is not None or mask is not None or sample.arrays or options.restarts
    has_details = has_details or rules.keeps_origins
    has_bands = options.restarts and image.codec == Codec.JPEG
    bands = make_bands(image.payload) if has_bands else np.zeros(0, np.uint32)
    return EncodedRecord(
        key=sample.key,
        prefix=prefix,
        payload=image.payload,
        suffix=suffix,
        attributes=(image.codec, image.height, image.width, image.orientation),
        skipped=skipped,
        details=RecordDetails(objects, mask_range, array_ranges, bands, _origin(image.source, geometry))
        if has_details
        else None,
    )


def _image_record(sample: ImageSample, image: EncodedImage, rules: RecordRules) -> ImageRecord:
    """The contents of the record of an image, from which each container takes those that it can hold."""
    features, classes = None, rules.classes
    if sample.objects is not None:
        keypoints = rules.info.keypoints
        features = partial(object_features, sample.objects, image.height, image.width, classes, keypoints)
    return ImageRecord(
        key=sample.key,
        payload_bytes=len(image.payload),
        format=image.codec.name,
        height=image.height,
        width=image.width,
        orientation=image.orientation,
        labels=sample.labels,
        classes=classes,
        objects=features,
        mask=sample.mask,
    )


def _origin(source: tuple[int, int], geometry: ResizeGeometry) -> Origin:
    scale, shift = geometry.scale, geometry.shift
    left, top = (-shift / scale).tolist()
    return Origin(*source, left, top, *(1 / scale).tolist())


def _wrap_arrays(
    container: str, arrays: Sequence[StoredArray], after: int
) -> tuple[bytes, tuple[ByteRange, ...]]:
    """The bytes of arrays in a record, and their ranges; ``after`` bytes lie between them and the payload."""
    wrap = find_writing(container).wrap_arrays
    if wrap is None:
        raise ConfigError(f"records of format {container} hold no arrays", hint="Write tfrecord or lmdb.")
    data, offsets = wrap(arrays)
    return data, tuple(
        (after + offset, len(array.data), crc32c(array.data))
        for offset, array in zip(offsets, arrays, strict=True)
    )


def _fit(
    sample: ImageSample, image: EncodedImage, geometry: ResizeGeometry, rules: RecordRules
) -> tuple[Annotations | None, tuple[Skip, ...]]:
    """The objects of an image as they are stored, and those that are left out."""
    if sample.objects is None:
        return None, ()
    fitted, dropped = fit_objects(sample.objects, image.source, geometry, relative=rules.relative)
    skips = [(drop, _skip(sample.key, rules.object_name, sample.objects, drop)) for drop in dropped]
    if rules.options.strict and (broken := [skip for drop, skip in skips if drop.broken]):
        raise rules.strict_error(broken[0])
    return fitted, tuple(skip for _, skip in skips)


def _skip(key: str, name: str, objects: Annotations, dropped: Dropped) -> Skip:
    name = name.replace("{}", str(objects.id[dropped.object]), 1)
    return Skip(key, dropped.reason, f"{name}: {dropped.detail}" if dropped.detail else name)


def object_columns(samples: Sequence[Annotations], like: Annotations) -> dict[str, pa.Array]:
    """Index columns of the objects of N samples; N may be 0, and the columns are the columns of ``like``."""
    columns = to_columns(samples or [like])
    return {name: array[: len(samples)] for name, array in columns.items()}


def band_columns(bands: Sequence[npt.NDArray[np.uint32]]) -> dict[str, pa.Array]:
    """The index column of the bands of N images, see ``Samples.bands``."""
    lists = ListColumn.of_counts(
        [len(numbers) for numbers in bands], np.concatenate([np.zeros(0, np.uint32), *bands])
    )
    return {name: lists.to_arrow() for name in BAND_COLUMNS}


def make_range_columns(
    names: Sequence[str], ranges: Sequence[ByteRange], ends: npt.NDArray[np.int64]
) -> dict[str, pa.Array]:
    """Index columns of the offset, the length and the checksum of N pieces of records."""
    # ends (N,) int64
    table: npt.NDArray[Any] = np.array(ranges, np.int64).reshape(-1, 3)
    table[:, 0] += ends
    return {
        name: pa.array(values).cast(arrow_type)
        for name, arrow_type, values in zip(names, RANGE_TYPES.values(), table.T, strict=True)
    }
