"""The encoder of samples from Python: their records, and their columns of the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import DecodeError

from ..dataset.annotations import MASK_COLUMNS, AnnotationInfo, Annotations
from ..dataset.columns import ListColumn, array_types, origin_columns, range_columns, shape_column
from ..dataset.manifest import TOKENIZER_NAME
from ..sources.image_files import SkippedError
from ..sources.listing import Skip
from ..sources.objects import swap_of
from ..tokenization import Tokenizer
from .captions import CaptionTokens, encode_captions
from .image_encoder import (
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
from .samples import CheckedSample, SampleChecker, SampleForm, image_file, mask_file, number_column


class _Details(NamedTuple):
    """What the columns of the index need of a sample, besides its payload."""

    sample: CheckedSample
    record: RecordDetails | None
    captions: CaptionTokens | None


@dataclass(frozen=True)
class SampleEncoder(ImageColumns):
    """Encodes checked samples, see :class:`stoker.formats.conversion.plan.IndexColumns`."""

    options: ConvertOptions  # How images are stored
    checker: SampleChecker  # Checks the samples, and knows the form that all of them have
    keypoints: tuple[str, ...]  # Names of the keypoints of an object; empty to number them
    ignore: int | None  # Value in masks for pixels without a class; None if there is none
    # Whether the index has the coordinates of each image in the image of the source
    keeps_origins: bool = False
    tokenizer: Tokenizer | None = None  # Makes token ids of captions; None if samples have none
    mask_values: set[int] = field(default_factory=set)  # The first values of masks, at least three if any

    @property
    def files(self) -> Mapping[str, bytes]:
        file = None if self.tokenizer is None else self.tokenizer.file
        return {} if file is None else {TOKENIZER_NAME: file}

    @property
    def arrays(self) -> Mapping[str, str]:
        return {name: column.dtype for name, column in self._form.arrays.items()}

    @property
    def info(self) -> AnnotationInfo:
        """Meaning of the objects and masks of the samples so far."""
        names = self.keypoints or tuple(map(str, range(self.checker.keypoints or 0)))
        masked = self.checker.form is not None and self.checker.form.segmentation
        return AnnotationInfo(names, swap_of(names), ignore=self.ignore if masked else None)

    @property
    def _form(self) -> SampleForm:
        assert self.checker.form is not None, "a sample has been checked"
        return self.checker.form

    def encode(self, sample: CheckedSample) -> EncodedRecord | Skip:
        """Encode a sample; a Skip stands for one whose image or mask is broken, unless options are strict."""
        try:
            captions = self._captions(sample)
            image = encode_image(image_file(sample.image, sample.key), self.options)
            mask = None if sample.segmentation is None else mask_file(sample.segmentation, sample.key)
            image_sample = ImageSample(sample.key, sample.labels, sample.objects, mask, sample.arrays)
            record = encode_record(image_sample, image, self._rules)
        except SkippedError as skip:
            skipped = Skip(sample.key, *skip.args)
            if self.options.strict:
                raise self._error(skipped) from skip
            return skipped
        # The image and the bytes of arrays are not kept: a shard may have a million samples.
        kept = sample._replace(
            image=None,
            captions=(),
            segmentation=None,
            objects=None,
            arrays=tuple(replace(array, data=b"") for array in sample.arrays),
        )
        return record._replace(details=_Details(kept, record.details, captions))

    def _captions(self, sample: CheckedSample) -> CaptionTokens | None:
        if self.tokenizer is None or self.options.captions is None:
            return None
        tokens = encode_captions(self.tokenizer, [sample.captions], self.options.captions.dtype)
        if not tokens.counts[0]:
            raise SkippedError("no caption", "")
        return tokens

    @property
    def _rules(self) -> RecordRules:
        return RecordRules(
            self.options,
            self.checker.classes,
            self.info,
            relative=False,
            object_name="object {}",
            strict_error=self._error,
            keeps_origins=self.keeps_origins,
            mask_values=self.mask_values,
        )

    def _error(self, skip: Skip) -> DecodeError:
        return DecodeError(
            skip.message, key=skip.key, hint="Repair the sample, or write with strict=False to leave it out."
        )

    def columns(
        self, rows: npt.NDArray[np.int64], details: Sequence[_Details], ends: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """Labels, the user's columns, bands, objects, masks, and the byte ranges and shapes of arrays."""
        form = self._form
        columns: dict[str, Any] = {}
        samples = [of_record.sample for of_record in details]
        labels = [sample.labels or () for sample in samples]
        if form.labels == "one label":
            columns["label"] = pa.array(np.array(labels, np.int64).reshape(-1))
        elif form.labels == "several labels":
            flat = np.array([label for of_sample in labels for label in of_sample], np.int64)
            columns["label"] = ListColumn.of_counts(list(map(len, labels)), flat).to_arrow()
        for i, (name, column) in enumerate(form.values.items()):
            columns[name] = number_column([sample.values[i] for sample in samples], column)
        records = [of_record.record for of_record in details if of_record.record is not None]
        if self.keeps_origins:
            columns |= origin_columns([record.origin for record in records])
        if self.options.restarts:
            columns |= band_columns([record.bands for record in records])
        if form.objects:
            with_objects = (record.objects for record in records if record.objects is not None)
            objects = [self._with_keypoints(of_sample) for of_sample in with_objects]
            columns |= object_columns(objects, objects[0])
        if form.segmentation:
            columns |= make_range_columns(tuple(MASK_COLUMNS), [record.mask for record in records], ends)
        if captions := [of_record.captions for of_record in details if of_record.captions is not None]:
            columns |= CaptionTokens.join(captions).columns()
        for i, name in enumerate(form.arrays):
            columns |= make_range_columns(range_columns(name), [record.arrays[i] for record in records], ends)
            shapes = np.array([sample.arrays[i].shape for sample in samples], np.int64)
            counts = np.full(len(shapes), form.arrays[name].sides)
            shape = ListColumn.of_counts(counts, shapes.reshape(-1)).to_arrow()
            columns[shape_column(name)] = shape.cast(array_types(name)[shape_column(name)])
        return columns

    def _with_keypoints(self, objects: Annotations) -> Annotations:
        """Objects with room for all keypoints; those without objects may have come before their number."""
        if objects.keypoints is None or len(objects):
            return objects
        return replace(objects, keypoints=np.zeros((0, self.checker.keypoints or 0, 3), np.float32))
