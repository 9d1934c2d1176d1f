"""The encoder of images, with their labels, objects and masks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from stoker._native import crc32c
from stoker.errors import DecodeError

from ...containers.registry import find_writing
from ...dataset.columns.annotation_columns import MASK_COLUMNS, from_columns, to_columns
from ...dataset.columns.list_column import ListColumn
from ...sources.listing import Skip
from ...sources.source_reader import SkippedError, read_source_file
from ..encoder import EncodedRecord
from .encode_image import Sample, encode_image, image_record
from .image_objects import encode_mask, fit_objects
from .resize_geometry import resize_geometry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ...dataset.columns.annotations import Annotations
    from ...sources.listing import ListedObjects, Listing
    from ..options import ConvertOptions
    from .encode_image import EncodedImage
    from .image_objects import Dropped
    from .resize_geometry import ResizeGeometry

__all__ = ["ImageEncoder"]

# Large enough that the overhead of a task is small, small enough that several in flight take little memory.
_CHUNK_SAMPLES = 32
_CHUNK_SAMPLES_REENCODED = 8
_PADDING = 255  # value of padding in masks without an ignore_index


class _Source(NamedTuple):
    """An image of the source: its row of the listing, file, size in bytes, labels and objects."""

    row: int
    key: str
    size: int
    labels: tuple[int, ...] | None
    objects: Annotations | None


class _Details(NamedTuple):
    """Index entries of a record besides its payload; the mask's offset counts from the end of the payload."""

    objects: Annotations | None
    mask: tuple[int, int, int]


@dataclass(frozen=True)
class ImageEncoder:
    """Encodes the image files of a listing, see :class:`stoker.formats.conversion.encoder.Encoder`."""

    listing: Listing
    options: ConvertOptions

    @property
    def sample_type(self) -> str:
        """See :class:`Encoder`."""
        return "image"

    @property
    def chunk_samples(self) -> int:
        """See :class:`Encoder`."""
        return _CHUNK_SAMPLES if self.options.keeps_bytes else _CHUNK_SAMPLES_REENCODED

    @property
    def attributes(self) -> Mapping[str, type[np.integer[Any]]]:
        """See :class:`Encoder`, and :class:`stoker.formats.dataset.samples.Samples` for their meaning."""
        return {"codec": np.uint8, "height": np.int32, "width": np.int32, "orientation": np.uint8}

    @property
    def files(self) -> Mapping[str, bytes]:
        """See :class:`Encoder`; there are none."""
        return {}

    def encode(self, rows: npt.NDArray[np.int64]) -> Iterator[EncodedRecord | Skip]:
        """See :class:`Encoder`."""
        return map(self._outcome, self._sources(rows))

    def _outcome(self, source: _Source) -> EncodedRecord | Skip:
        try:
            return self._record(source)
        except SkippedError as skip:
            return Skip(source.key, *skip.args)

    def _record(self, source: _Source) -> EncodedRecord:
        root, follow_links = str(self.listing.root), self.listing.follow_links
        data = read_source_file(root, source.key, source.size, follow_links=follow_links)
        image = encode_image(data, self.options)
        objects, skipped = self._fit(source, image)
        mask = self._mask(source.row, image)
        sample = Sample(source.key, source.labels, objects, mask)
        record = image_record(sample, image, self.listing.classes, self.listing.info.keypoints)
        prefix, suffix = find_writing(self.options.container).wrap_image(record)
        mask_location = (0, 0, 0) if mask is None else (suffix.index(mask), len(mask), crc32c(mask))
        known = objects is not None or mask is not None
        return EncodedRecord(
            key=source.key,
            prefix=prefix,
            payload=image.payload,
            suffix=suffix,
            attributes=(image.codec, image.height, image.width, image.orientation),
            skipped=skipped if image.unmarked is None else (*skipped, _unmarked(source.key, *image.unmarked)),
            details=_Details(objects, mask_location) if known else None,
        )

    def _fit(self, source: _Source, image: EncodedImage) -> tuple[Annotations | None, tuple[Skip, ...]]:
        """The objects of an image as they are stored, and those that are left out."""
        listed, objects = self.listing.objects, source.objects
        if listed is None or objects is None:
            return None, ()
        declared = (int(listed.heights[source.row]), int(listed.widths[source.row]))
        if all(declared) and declared != image.source:
            raise SkippedError(
                "image of another size than its annotations say",
                f"{image.source[1]} x {image.source[0]} and {declared[1]} x {declared[0]}",
            )
        geometry = self._geometry(image)
        fitted, dropped = fit_objects(objects, image.source, geometry, relative=listed.relative)
        skips = [(one, _skip(source.key, listed, objects, one)) for one in dropped]
        if self.options.strict and (broken := [skip for one, skip in skips if one.broken]):
            raise self.strict_error(broken[0])
        return fitted, tuple(skip for _, skip in skips)

    def _geometry(self, image: EncodedImage) -> ResizeGeometry:
        options = self.options
        return resize_geometry(options.mode, options.height, options.width, image.source)

    def _mask(self, row: int, image: EncodedImage) -> bytes | None:
        masks = self.listing.masks
        if masks is None:
            return None
        try:
            key, size = masks.keys[row].as_py(), int(masks.sizes[row])
            data = read_source_file(str(masks.root), key, size, follow_links=masks.follow_links)
        except SkippedError as error:
            raise SkippedError("broken mask", ": ".join(filter(None, error.args))) from error
        ignore = self.listing.info.ignore
        padding = _PADDING if ignore is None else ignore
        return encode_mask(data, image.source, self._geometry(image), padding, self.options.max_pixels)

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[_Details], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """Labels, the user's columns, objects and masks."""
        listing = self.listing
        labels = {} if listing.labels is None else {"label": listing.labels}
        columns = {name: array.take(rows) for name, array in {**labels, **listing.columns}.items()}
        if listing.objects is not None:
            samples = [one.objects for one in details if one.objects is not None]
            # If no sample is left, columns of length 0 come from a sample without objects.
            made = to_columns(samples or self._objects(np.zeros(1, np.int64)))
            columns |= {name: array[: len(samples)] for name, array in made.items()}
        if listing.masks is not None:
            table = np.array([one.mask for one in details], np.int64).reshape(-1, 3)
            table[:, 0] += ends
            columns |= {
                name: pa.array(values).cast(arrow_type)
                for (name, arrow_type), values in zip(MASK_COLUMNS.items(), table.T, strict=True)
            }
        return columns

    def strict_error(self, skip: Skip) -> DecodeError:
        """See :class:`Encoder`."""
        return DecodeError(
            skip.message,
            path=os.path.join(self.listing.root, skip.key),  # noqa: PTH118 - the root may be a URL
            key=skip.key,
            hint="repair or remove the file, or convert without strict to skip it",
        )

    def _sources(self, rows: npt.NDArray[np.int64]) -> Iterator[_Source]:
        listing = self.listing
        labels = repeat(None, len(rows)) if listing.labels is None else listing.labels.take(rows).to_pylist()
        for row, key, size, label, objects in zip(
            rows.tolist(),
            listing.keys.take(rows).to_pylist(),
            listing.sizes[rows].tolist(),
            labels,
            self._objects(rows),
            strict=True,
        ):
            yield _Source(
                row, key, size, (label,) if isinstance(label, int) else label and tuple(label), objects
            )

    def _objects(self, rows: npt.NDArray[np.int64]) -> list[Any]:
        """The objects of each row of the listing; None for each where the source has no objects."""
        if self.listing.objects is None:
            return [None] * len(rows)
        taken = {name: column.take(rows) for name, column in self._columns.items()}
        return from_columns(taken, len(rows), len(self.listing.info.keypoints)).split(len(rows))

    @cached_property
    def _columns(self) -> dict[str, ListColumn]:
        assert self.listing.objects is not None, "called only where the source has objects"
        return {name: ListColumn.from_arrow(array) for name, array in self.listing.objects.columns.items()}


def _unmarked(key: str, reason: str, detail: str) -> Skip:
    return Skip(key, f"restart markers ({reason})", detail)


def _skip(key: str, listed: ListedObjects, objects: Annotations, dropped: Dropped) -> Skip:
    name = listed.name.replace("{}", str(objects.id[dropped.object]), 1)
    return Skip(key, dropped.reason, f"{name}: {dropped.detail}" if dropped.detail else name)
