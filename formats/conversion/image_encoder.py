"""Records of images, with their labels, objects and masks; and the encoder of the images of a listing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker import _native
from stoker._native import crc32c, make_bands
from stoker.errors import DecodeError, StokerError
from stoker.processes import cached_property

from ..codecs.codec import SIGNATURE_BYTES, Codec, is_image_start
from ..codecs.decode import TranscodeRules, decode_rgb, target_codec, transcode
from ..codecs.header import DAMAGE_CHECKS
from ..containers.container import Writing, find_writing
from ..containers.image_record import ImageRecord, StoredArray
from ..containers.protobuf import Feature
from ..dataset.annotations import MASK_COLUMNS, AnnotationInfo, Annotations, from_columns, to_columns
from ..dataset.columns import (
    ORIGIN_COLUMNS,
    RANGE_TYPES,
    ListColumn,
    Origin,
    has_origins,
    origin_columns,
    range_columns,
    shape_column,
)
from ..dataset.index import BAND_COLUMNS, NO_CHECKSUM
from ..dataset.manifest import TOKENIZER_NAME
from ..sources.image_files import SkippedError, check_image, checked_start, read_byte_range, read_source_file
from ..sources.listing import ListedBlocks, ListedFiles, Listing, Skip
from .image_objects import ResizeGeometry, check_size, fit_objects, resize_geometry, turn_objects
from .options import QUALITY, SUBSAMPLING, ConvertOptions
from .plan import EncodedRecord

if TYPE_CHECKING:  # images without masks do not load it
    from .mask_values import MaskRules


class EncodedImage(NamedTuple):
    """An image as it is stored."""

    payload: bytes  # The encoded image; for raw pixels (height, width, 3) uint8 RGB
    codec: Codec  # Its encoding
    height: int  # Height in pixels, after the EXIF orientation has been applied
    width: int  # Width in pixels, after it as well
    orientation: int  # EXIF orientation that the stored bytes have, 1 to 8
    source: tuple[int, int]  # Height and width of the image in the source, after its EXIF orientation
    turn: int  # EXIF orientation of the image in the source, 1 to 8
    # Why a JPEG has no restart markers although they were asked for, and a detail; or None
    unmarked: tuple[str, str] | None = None


def encode_image(data: bytes, options: ConvertOptions) -> EncodedImage:
    """Encode an image as the options ask; without such options its bytes stay as they are."""
    header = check_image(data, options.max_pixels)
    target = target_codec(header.codec, options.encoding)
    size = (header.height, header.width)
    try:
        is_as_asked = options.mode == "none" and target == header.codec and not options.compresses_again
        if not (options.keeps_images or is_as_asked):
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
            return EncodedImage(payload, target, height, width, 1, size, header.orientation)
        if header.codec not in DAMAGE_CHECKS:  # only decoding shows whether it is whole
            decode_rgb(data, header.codec, *size)
        marked, reason, detail = None, "", ""
        if options.restarts and header.codec == Codec.JPEG:
            marked, reason, detail = _native.mark_restarts(data)
    except MemoryError:
        raise
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken image", str(error)) from error
    unmarked = (reason, detail) if reason else None
    turn = header.orientation
    return EncodedImage(marked or data, header.codec, *size, turn, size, turn, unmarked)


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
    mask_values: set[int] | None = None  # Collects the values of masks; None where the listing has read them

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
            self.mask_values,
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
    features = mask = None
    if objects is not None:
        keypoints = rules.info.keypoints
        features = partial(object_features, objects, image.height, image.width, rules.classes, keypoints)
    if sample.mask is not None:
        from .mask_values import encode_mask

        mask = encode_mask(
            sample.mask,
            image.source,
            geometry,
            rules.masks,
            options.max_pixels,
            orientation=image.turn,
            before_exif=options.annotations_before_exif,
        )
    # Each container takes what it can hold.
    writing = find_writing(options.container)
    prefix, suffix = writing.wrap_image(
        ImageRecord(
            key=sample.key,
            payload_bytes=len(image.payload),
            format=image.codec.name,
            height=image.height,
            width=image.width,
            orientation=image.orientation,
            labels=sample.labels,
            classes=rules.classes,
            objects=features,
            mask=mask,
        )
    )
    mask_range = (0, 0, 0) if mask is None else (suffix.index(mask), len(mask), crc32c(mask))
    suffix, array_ranges = _append_arrays(writing, suffix, sample.arrays)
    details = None
    if objects is not None or mask is not None or sample.arrays or options.restarts or rules.keeps_origins:
        has_bands = options.restarts and image.codec == Codec.JPEG
        bands = make_bands(image.payload) if has_bands else np.zeros(0, np.uint32)
        (left, top), scale = (-geometry.shift / geometry.scale).tolist(), (1 / geometry.scale).tolist()
        origin = Origin(*image.source, left, top, *scale)
        details = RecordDetails(objects, mask_range, array_ranges, bands, origin)
    attributes = (image.codec, image.height, image.width, image.orientation)
    return EncodedRecord(sample.key, prefix, image.payload, suffix, attributes, skipped, details)


def _append_arrays(
    writing: Writing, suffix: bytes, arrays: Sequence[StoredArray]
) -> tuple[bytes, tuple[ByteRange, ...]]:
    """The end of a record with arrays behind it, and the range of each array, counted from its payload."""
    ranges: list[ByteRange] = []
    for array in arrays:
        before, after = writing.wrap_array(array)
        ranges.append((len(suffix) + len(before), len(array.data), crc32c(array.data)))
        suffix = b"".join((suffix, before, array.data, after))
    return suffix, tuple(ranges)


def _fit(
    sample: ImageSample, image: EncodedImage, geometry: ResizeGeometry, rules: RecordRules
) -> tuple[Annotations | None, tuple[Skip, ...]]:
    """The objects of an image as they are stored, and those that are left out."""
    if sample.objects is None:
        return None, ()
    objects, relative = sample.objects, rules.relative
    if rules.options.annotations_before_exif:
        objects = turn_objects(objects, image.turn, image.source, rules.info.swap, relative=relative)
    fitted, dropped = fit_objects(objects, image.source, geometry, relative=relative)
    skips = []
    for drop in dropped:
        name = rules.object_name.replace("{}", str(sample.objects.id[drop.object]), 1)
        skips.append(Skip(sample.key, drop.reason, f"{name}: {drop.detail}" if drop.detail else name))
        if rules.options.strict and drop.broken:
            raise rules.strict_error(skips[-1])
    return fitted, tuple(skips)


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


if TYPE_CHECKING:  # a conversion of tables alone loads Parquet
    from ..sources.tables import BlockImages

# Large enough that the overhead of a task is small, small enough that several in flight take little memory.
_CHUNK_SAMPLES = 32
_CHUNK_SAMPLES_REENCODED = 8


def _read_listed(files: ListedFiles, row: int, key: str) -> bytes:
    """The bytes of a file, or of a range of a larger file."""
    ranges, size = files.ranges, int(files.sizes[row])
    if ranges is None:
        return read_source_file(str(files.root), key, size, follow_links=files.follow_links)
    file, offset = int(ranges.file[row]), int(ranges.offset[row])
    pieces = 1 if ranges.pieces is None else int(ranges.pieces[row])
    data = read_byte_range(ranges.files[file], ranges.file_sizes[file], offset, size, pieces)
    if ranges.crc is not None and ranges.crc[row] not in (NO_CHECKSUM, crc32c(data)):
        raise SkippedError("record whose checksum does not match", "")
    return data


@dataclass(frozen=True)
class ImageEncoder(ImageColumns):
    """Encodes the images of a listing, see :class:`stoker.formats.conversion.plan.Encoder`."""

    listing: Listing  # The images
    options: ConvertOptions  # How they are stored
    images: BlockImages | None = None  # Reads them if they are in blocks of files
    # Content of ``tokenizer.json``, with which captions became token ids; None if there is none
    tokenizer: bytes | None = None

    @property
    def files(self) -> Mapping[str, bytes]:
        return {} if self.tokenizer is None else {TOKENIZER_NAME: self.tokenizer}

    @property
    def arrays(self) -> Mapping[str, str]:
        return {name: array.dtype for name, array in self.listing.arrays.items()}

    @property
    def chunk_samples(self) -> int:
        return _CHUNK_SAMPLES if self.options.keeps_bytes else _CHUNK_SAMPLES_REENCODED

    def encode(self, rows: npt.NDArray[np.int64]) -> Iterator[EncodedRecord | Skip]:
        listing = self.listing
        labels = repeat(None, len(rows)) if listing.labels is None else listing.labels.take(rows).to_pylist()
        keys, objects = listing.keys.take(rows).to_pylist(), self._objects(rows)
        for row, key, label, of_image in zip(rows.tolist(), keys, labels, objects, strict=True):
            of_sample = (label,) if isinstance(label, int) else label and tuple(label)
            yield self._outcome(row, ImageSample(key, of_sample, of_image))

    def _outcome(self, row: int, sample: ImageSample) -> EncodedRecord | Skip:
        try:
            image = encode_image(self._read(row, sample.key), self.options)
            self._check_size(row, image)
            sample = sample._replace(mask=self._read_mask(row), arrays=tuple(self._arrays(row)))
            return encode_record(sample, image, self._rules)
        except SkippedError as skip:
            return Skip(sample.key, *skip.args)

    def _read(self, row: int, key: str) -> bytes:
        if self.listing.blocks is not None:
            return self._read_block(row, self.listing.blocks)
        return checked_start(_read_listed(self.listing, row, key))

    def _read_block(self, row: int, blocks: ListedBlocks) -> bytes:
        assert self.images is not None, "given for every listing with blocks"
        data = self.images.read(int(blocks.file[row]), int(blocks.block[row]), int(blocks.row[row]))
        if data is None:
            raise SkippedError("row without the bytes of an image", "")
        if not is_image_start(data[:SIGNATURE_BYTES]):
            raise SkippedError("not an image", "")
        return data

    @cached_property
    def _rules(self) -> RecordRules:
        listing = self.listing
        objects = listing.objects
        return RecordRules(
            self.options,
            listing.classes,
            listing.info,
            relative=objects is not None and objects.relative,
            object_name="" if objects is None else objects.name,
            strict_error=self.strict_error,
            keeps_origins=self.options.mode != "none",
        )

    def _check_size(self, row: int, image: EncodedImage) -> None:
        """Raise SkippedError if the annotations of an image are of another size than the image."""
        listed = self.listing.objects
        if listed is None:
            return
        declared = (int(listed.heights[row]), int(listed.widths[row]))
        if all(declared):
            reason = "image of another size than its annotations say"
            check_size(reason, declared, image.source, image.turn, self.options.annotations_before_exif)

    def _read_mask(self, row: int) -> bytes | None:
        masks = self.listing.masks
        if masks is None:
            return None
        try:
            return checked_start(_read_listed(masks, row, masks.keys[row].as_py()))
        except SkippedError as error:
            raise SkippedError("broken mask", ": ".join(filter(None, error.args))) from error

    def _arrays(self, row: int) -> Iterator[StoredArray]:
        for name, array in self.listing.arrays.items():
            shape = tuple(self.listing.columns[shape_column(name)][row].as_py())
            yield StoredArray(name, array.dtype, shape, _read_listed(array.files, row, name))

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[RecordDetails], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """Labels, the user's columns, origins, bands, objects and masks."""
        listing = self.listing
        columns = {name: array.take(rows) for name, array in listing.labelled_columns.items()}
        if self._rules.keeps_origins:  # in front of the other columns
            origins = [record.origin for record in details]
            if has_origins({name: str(column.type) for name, column in columns.items()}):
                earlier = zip(*(columns[name].to_pylist() for name in ORIGIN_COLUMNS), strict=True)
                origins = [new.after(Origin(*old)) for new, old in zip(origins, earlier, strict=True)]
            columns |= origin_columns(origins)
            columns = {**{name: columns[name] for name in ORIGIN_COLUMNS}, **columns}
        if self.options.restarts:
            columns |= band_columns([record.bands for record in details])
        if listing.objects is not None:
            samples = [record.objects for record in details if record.objects is not None]
            # Without any record, the first sample of the listing tells which columns there are.
            columns |= object_columns(samples, self._objects(np.zeros(1, np.int64))[0])
        if listing.masks is not None:
            columns |= make_range_columns(tuple(MASK_COLUMNS), [record.mask for record in details], ends)
        for i, name in enumerate(listing.arrays):
            columns |= make_range_columns(range_columns(name), [record.arrays[i] for record in details], ends)
        return columns

    def strict_error(self, skip: Skip) -> DecodeError:
        return DecodeError(
            skip.message,
            path=os.path.join(self.listing.root, skip.key),  # noqa: PTH118 - the root may be a URL
            key=skip.key,
            hint="Repair or remove the file, or convert without strict to skip it.",
        )

    def _objects(self, rows: npt.NDArray[np.int64]) -> list[Any]:
        """The objects of each row of the listing; None for each where the source has no objects."""
        if self.listing.objects is None:
            return [None] * len(rows)
        columns = {name: column.take(rows) for name, column in self._columns.items()}
        return from_columns(columns, len(rows), len(self.listing.info.keypoints)).split(len(rows))

    @cached_property
    def _columns(self) -> dict[str, ListColumn]:
        assert self.listing.objects is not None, "called only where the source has objects"
        return {name: ListColumn.from_arrow(array) for name, array in self.listing.objects.columns.items()}
