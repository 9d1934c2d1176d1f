"""The encoder of images, with their labels, objects and masks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker.errors import DecodeError

from ..codecs.codec import SIGNATURE_BYTES, is_image_start
from ..dataset.annotations import MASK_COLUMNS, from_columns
from ..dataset.columns import ListColumn, origin_columns
from ..dataset.manifest import TOKENIZER_NAME
from ..sources.listing import ListedBlocks, Listing, Skip
from ..sources.source_reader import SkippedError, read_byte_range, read_source_file
from .image_record import (
    EncodedImage,
    ImageColumns,
    ImageSample,
    RecordDetails,
    RecordRules,
    band_columns,
    encode_image,
    encode_record,
    make_range_columns,
    object_columns,
)
from .options import ConvertOptions
from .plan import EncodedRecord

if TYPE_CHECKING:  # a conversion of tables alone loads Parquet
    from ..sources.table_blocks import BlockImages

# Large enough that the overhead of a task is small, small enough that several in flight take little memory.
_CHUNK_SAMPLES = 32
_CHUNK_SAMPLES_REENCODED = 8


@dataclass(frozen=True)
class ImageEncoder(ImageColumns):
    """Encodes the images of a listing, see :class:`stoker.formats.conversion.plan.Encoder`."""

    arrays: ClassVar[Mapping[str, str]] = {}

    listing: Listing  # The images
    options: ConvertOptions  # How they are stored
    images: BlockImages | None = None  # Reads them if they are in blocks of files
    # Content of ``tokenizer.json``, with which captions became token ids; None if there is none
    tokenizer: bytes | None = None

    @property
    def files(self) -> Mapping[str, bytes]:
        return {} if self.tokenizer is None else {TOKENIZER_NAME: self.tokenizer}

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
            return encode_record(sample._replace(mask=self._read_mask(row)), image, self._rules)
        except SkippedError as skip:
            return Skip(sample.key, *skip.args)

    def _read(self, row: int, key: str) -> bytes:
        listing, ranges, size = self.listing, self.listing.ranges, int(self.listing.sizes[row])
        if listing.blocks is not None:
            return self._read_block(row, listing.blocks)
        if ranges is None:
            return read_source_file(str(listing.root), key, size, follow_links=listing.follow_links)
        file, offset = int(ranges.file[row]), int(ranges.offset[row])
        pieces = 1 if ranges.pieces is None else int(ranges.pieces[row])
        return read_byte_range(ranges.files[file], ranges.file_sizes[file], offset, size, pieces)

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
        if all(declared) and declared != image.source:
            raise SkippedError(
                "image of another size than its annotations say",
                f"{image.source[1]} x {image.source[0]} and {declared[1]} x {declared[0]}",
            )

    def _read_mask(self, row: int) -> bytes | None:
        masks = self.listing.masks
        if masks is None:
            return None
        try:
            key, size = masks.keys[row].as_py(), int(masks.sizes[row])
            return read_source_file(str(masks.root), key, size, follow_links=masks.follow_links)
        except SkippedError as error:
            raise SkippedError("broken mask", ": ".join(filter(None, error.args))) from error

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[RecordDetails], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """Labels, the user's columns, origins, bands, objects and masks."""
        listing = self.listing
        columns = {name: array.take(rows) for name, array in listing.labelled_columns.items()}
        if self._rules.keeps_origins:  # in front of the other columns
            columns = {**origin_columns([record.origin for record in details]), **columns}
        if self.options.restarts:
            columns |= band_columns([record.bands for record in details])
        if listing.objects is not None:
            samples = [record.objects for record in details if record.objects is not None]
            # Without any record, the first sample of the listing tells which columns there are.
            columns |= object_columns(samples, self._objects(np.zeros(1, np.int64))[0])
        if listing.masks is not None:
            columns |= make_range_columns(tuple(MASK_COLUMNS), [record.mask for record in details], ends)
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
