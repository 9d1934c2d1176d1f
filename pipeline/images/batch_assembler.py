"""The assembly of image batches: what the engine and the readers made becomes the columns of a batch.

It raises the errors of bad samples, or leaves these out as ``on_error`` says.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.batch import one_hot
from stoker.bucketing import Pack, Packed, Ragged
from stoker.errors import (
    ConfigError,
    CorruptRecordError,
    DatasetError,
    DecodeError,
    ImageTooLargeError,
    SampleError,
)
from stoker.formats.files import is_of_machine, storage_error
from stoker.types import Layout, Size

from ..adapters import Adapter
from ..adapters.numpy import mix_in_place
from ..engines.base import AGAIN, Result, Status
from ..execution.pipeline import ColumnSpec, FinishedBatch
from ..execution.stats import StatsTotals
from ..order.sampling import batched_values
from .annotations import ImageContents
from .arrays import BatchArrays
from .batch_transforms import function_name
from .columns import IMAGE_SIZE, SOURCE_SIZE, TO_SOURCE, ImageColumn
from .config import ImageLoaderConfig
from .objects import pad
from .planned_batches import PlannedBatch

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]

Contents = tuple[list[ImageContents], BatchArrays | None, dict[int, SampleError]]
"""What goes beside the images of a batch: the last three fields of :class:`CollectedBatch`."""


@dataclass(frozen=True, eq=False)
class CollectedBatch:
    """A batch of the engine and the readers, not yet in arrays of the framework."""

    planned: PlannedBatch
    result: Result  # The images, as the engine returned them
    columns: list[ImageContents]  # What follows the images of each column
    arrays: BatchArrays | None  # Arrays of the dataset; None if there are no such columns
    errors: dict[int, SampleError]  # Errors in all of these, by index in the batch

    @property
    def images(self) -> tuple[Any, ...]:
        return self.result.columns

    @property
    def samples(self) -> int:
        return len(self.planned)

    @property
    def nbytes(self) -> int:
        """Bytes of the images."""
        return sum(images.nbytes for images in self.images)


_LISTS = "on_error='skip' or 'replace' goes on without such samples; stoker verify{} lists them all."
_DAMAGED, _BROKEN = _LISTS.format(""), _LISTS.format(" --decode")
_LARGE = "A larger max_pixels accepts it; on_error='skip' or 'replace' goes on without such samples."

ERRORS = {
    Status.READ_ERROR: (CorruptRecordError, "the payload cannot be read", _DAMAGED),
    Status.CHECKSUM_MISMATCH: (CorruptRecordError, "the payload does not match its checksum", _DAMAGED),
    Status.SIZE_MISMATCH: (CorruptRecordError, "the image is not the one in the index", _BROKEN),
    Status.NOT_DECODABLE: (DecodeError, "the image cannot be decoded", _BROKEN),
    Status.TRUNCATED: (DecodeError, "the image is truncated", _BROKEN),
    Status.TOO_LARGE: (ImageTooLargeError, "the image has more pixels than max_pixels", _LARGE),
}
"""Class of the error, what was wrong, and what to do about it, by the status of a sample."""


class BatchAssembler:
    """Makes the batches of one epoch out of :class:`CollectedBatch`, and counts bad samples."""

    def __init__(
        self, config: ImageLoaderConfig, adapter: Adapter, totals: StatsTotals, epoch: int, samples: float
    ) -> None:
        self._config = config
        self._adapter = adapter
        self._totals = totals
        self._epoch = epoch
        self._samples = samples  # of this rank in the epoch
        self._bad = 0
        self._last_bad: SampleError | None = None

    def complete(self, collected: CollectedBatch) -> FinishedBatch:
        """Apply the policy for bad samples, and make the columns and the framework's arrays."""
        planned, result, stream = collected.planned, collected.result, self._adapter.copy_stream
        self._raise_step_error(planned, result)
        for i, reason in result.reason.items():
            if is_of_machine(reason):
                (key,) = self._config.dataset.keys(planned.sources[[i]])
                raise storage_error(reason, key=key, hint=AGAIN)
        bad_sources = result.status != Status.OK
        is_bad = planned.of_images(bad_sources)
        is_bad[list(collected.errors)] = True
        self._totals.seen += len(planned)
        kept = self._choose_samples(collected, is_bad) if is_bad.any() else None
        self._check_budget()
        with self._totals.worker.stage("handing over"), stream or contextlib.nullcontext():
            batch = self._make(collected, kept)
            for whole in self._config.batch_transform_plan.whole:
                with self._totals.worker.stage(function_name(whole.function)):
                    batch = whole(batch)
        ready = stream.ready(batch) if stream else None
        if kept is None:
            return FinishedBatch(batch, len(planned), ready=ready)
        counted = "skipped" if self._config.bad_samples.on_error == "skip" else "replaced"
        keys = tuple(self._config.dataset.keys(planned.blamed(bad_sources)[is_bad]))
        return FinishedBatch(batch, len(kept), bad_keys=keys, ready=ready, **{counted: len(keys)})

    def _make(self, collected: CollectedBatch, kept: Int64 | None) -> Any:
        """Assemble a batch: transforms of batches, functions, and columns in the framework's arrays."""
        # kept (K,) int64
        config, planned = self._config, collected.planned
        chosen = np.arange(len(planned)) if kept is None else kept
        columns = [self._contents(collected, number, kept) for number in range(len(config.images))]
        labels = self._labels(planned, chosen)
        if len(chosen):
            size = config.images[0].at(planned.size).size
            columns[0], labels = self._transform(columns[0], labels, planned.draw_keys[chosen], size)
        arrays = [self._framework_array(*one) for one in zip(config.images, columns, strict=True)]
        for function in config.batch_transform_plan.functions:
            with self._totals.worker.stage(function_name(function)):
                arrays[0] = _run(function, arrays[0], len(chosen))
        if config.images[0].ragged and columns[0].image_size is not None:
            arrays[0] = cut_images(arrays[0], columns[0].image_size, config.image_format.layout)
        values = []
        for name in config.columns:
            number, kind = config.part(name) or (0, "")
            if kind == "image":
                values.append(arrays[number])
            elif kind:
                values.append(self._following(kind, config.images[number], columns[number], len(chosen)))
            elif name == "label" and labels is not None:
                values.append(self._adapter.column(labels))
            else:
                values.append(self._column(name, collected.arrays, planned, chosen, kept))
        return config.batch_type(*values)

    def _contents(self, collected: CollectedBatch, number: int, kept: Int64 | None) -> ImageContents:
        """The kept images of a column, with what follows them; on a GPU in the framework's arrays."""
        column, images, planned = self._config.images[number], collected.images[number], collected.planned
        patches, take = None, lambda images, chosen: images[chosen]
        if column.mask and f"{column.prefix}mask" in self._config.columns:
            keys = column.keys(planned.draw_keys)
            patches = column.mask.draw(keys, column.plan.size, self._config.draw_seed, self._epoch)
        if not isinstance(images, np.ndarray):
            take = self._adapter.take
            with self._totals.worker.stage("copying"):
                images = self._adapter.images(images, self._config.image_format.dtype)
        contents = replace(collected.columns[number], images=images, patches=patches)
        if kept is None:
            return contents
        n = len(planned)
        return contents.of_images(column.images_of(kept, n), n * (column.views or 1), take)

    def _framework_array(self, column: ImageColumn, contents: ImageContents) -> Any:
        """The images of a column as an array of the framework, with an axis of views if there are views."""
        images, views = contents.images, column.views
        if not isinstance(images, np.ndarray):
            return images if views is None else self._adapter.views(images, views)
        with self._totals.worker.stage("copying"):
            return self._adapter.images(_with_views(images, views), self._config.image_format.dtype)

    def _transform(
        self, images: ImageContents, labels: Array | None, draw_keys: Int64, size: Size
    ) -> tuple[ImageContents, Array | None]:
        """Images and labels after all transforms of batches (MixUp); named image columns have none."""
        config = self._config
        mix = mix_in_place if isinstance(images.images, np.ndarray) else self._adapter.mix
        for number in range(len(config.batch_transform_plan.transforms)):
            name, params = config.batch_transform_plan.draw(
                number, draw_keys, size, config.draw_seed, self._epoch
            )
            with self._totals.worker.stage(name):
                images = images.mixed(params, mix, config.image_format.layout)
                labels = None if labels is None else params.labels(labels, config.dataset.num_classes)
        return images, labels

    def _labels(self, planned: PlannedBatch, chosen: Int64) -> Array | None:
        if "label" not in self._config.columns:
            return None
        dataset, positions = self._config.dataset, planned.positions[chosen]
        if not self._config.multi_label:
            labels = dataset.values("label", positions)
            # Shares of classes even if this batch mixes nothing, so that all batches have one form.
            mixes = self._config.batch_transform_plan.transforms
            return one_hot(labels, dataset.num_classes) if mixes else labels
        lists = dataset.lists("label", positions)
        return multi_hot(lists.values, lists.counts, dataset.num_classes)

    def _column(
        self, name: str, arrays: BatchArrays | None, planned: PlannedBatch, chosen: Int64, kept: Int64 | None
    ) -> Any:
        """A column that follows no images."""
        if arrays is not None and name in arrays:
            of_samples = arrays if kept is None else arrays.of_samples(kept)
            return of_samples.column(name, self._adapter)
        captions = self._config.captions
        if captions and name in captions.columns:
            keys = planned.draw_keys[chosen]
            drawn = captions.draw(planned.positions[chosen], keys, self._config.draw_seed, self._epoch)
            return captions.column(name, drawn, self._adapter)
        values: Array | list[str]
        if name == "mask":  # belongs to the index in the batch, even if a good sample replaces a bad one
            values = planned.mask if len(chosen) == len(planned) else planned.mask[chosen]
        elif name == SOURCE_SIZE:
            values = self._config.dataset.origins(planned.positions[chosen]).sizes
        elif name == "row":
            values = planned.positions[chosen]
        else:
            values = batched_values(self._config.dataset, name, planned.positions[chosen])
        return self._adapter.column(values)

    def _following(self, kind: str, column: ImageColumn, contents: ImageContents, n: int) -> Any:
        """A column that follows the images of ``n`` samples: patches, matrices, class masks, or objects."""
        of_images = {
            "mask": contents.patches,
            "segmentation": contents.masks,
            TO_SOURCE: contents.to_source,
            IMAGE_SIZE: None if contents.image_size is None else contents.image_size.astype(np.int64),
        }.get(kind)
        ragged = contents.image_size if column.ragged else None
        if kind == "segmentation" and ragged is not None and of_images is not None:
            return cut_masks([self._adapter.column(mask) for mask in of_images], ragged)
        if of_images is not None:
            return self._adapter.column(_with_views(of_images, column.views))
        objects, config = contents.objects, column.annotations.objects
        assert objects is not None, "the columns of objects are left"
        counts = objects.counts(n * (column.views or 1))
        if kind == "count":
            return self._adapter.column(_with_views(counts, column.views))
        values = objects.column(kind, config)
        if config.form == "padded":
            return self._adapter.column(_with_views(pad(values, counts), column.views))
        if column.views is None:
            arrays = self._adapter.ragged(values, counts)
            return cut_masks(arrays, ragged) if kind == "masks" and ragged is not None else arrays
        split = counts.reshape(column.views, n)
        parts = np.split(values, np.cumsum(split.sum(axis=1))[:-1])
        return tuple(self._adapter.ragged(*part) for part in zip(parts, split, strict=True))

    def _choose_samples(
        self, collected: CollectedBatch, is_bad: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64]:
        """Indices in the batch of the samples that are returned, (K,) int64, as ``on_error`` says."""
        good, bad = np.flatnonzero(~is_bad), np.flatnonzero(is_bad)
        on_error = self._config.bad_samples.on_error
        if on_error == "raise" or (on_error == "replace" and not good.size):
            raise self._sample_error(collected, int(bad[0]))
        self._bad += len(bad)
        self._last_bad = self._sample_error(collected, int(bad[-1]))
        if on_error == "skip":
            return good
        chosen = np.arange(len(is_bad))
        # The next good sample of the batch, or after the last one the first: no further samples are drawn.
        chosen[bad] = good[np.searchsorted(good, bad) % good.size]
        return chosen

    def _raise_step_error(self, planned: PlannedBatch, result: Result) -> None:
        """Raise the error of the first sample on which a step failed, with the sample's key."""
        if result.step_errors:
            i = min(result.step_errors)
            error = result.step_errors.pop(i)  # popped, or the error would hold itself by its traceback
            error.key = self._config.dataset.keys(planned.positions[[i]])[0]
            raise error

    def _check_budget(self) -> None:
        """Raise the error of the last bad sample if the epoch has too many."""
        policy, error = self._config.bad_samples, self._last_bad
        if error and policy.is_exceeded(self._bad, samples=self._samples, seen=self._totals.seen):
            self._last_bad = None  # the error's traceback refers to this producer
            error.message = f"{self._bad} samples of this epoch are bad, the last one: {error.message}"
            error.hint = f"max_bad={policy.most} allows fewer; stoker verify --decode lists them all."
            raise error

    def _sample_error(self, collected: CollectedBatch, i: int) -> SampleError:
        """The error of the bad sample ``i`` of a batch."""
        planned, result = collected.planned, collected.result
        sources = planned.sources_of(i)
        bad = sources[result.status[sources] != Status.OK]
        if not bad.size:
            return collected.errors.pop(i)  # popped, or the error would hold itself by its traceback
        error_class, message, hint = ERRORS[Status(int(result.status[bad[0]]))]
        reason = result.reason.get(int(bad[0]), "")
        return self._config.dataset.error(
            int(planned.sources[bad[0]]), f"{message}: {reason}" if reason else message, error_class, hint
        )


class PatchAssembler(BatchAssembler):
    """Assembles batches of packed rows of patches."""

    def _make(self, collected: CollectedBatch, kept: Int64 | None) -> Any:
        planned, config = collected.planned, self._config
        planner, sizes = config.size_plan.patch_planner, collected.columns[0].image_size
        assert planner is not None, "called for patches alone"
        assert planned.groups is not None, "rows of patches are packed"
        assert sizes is not None, "images of patches are padded"
        chosen = np.arange(len(planned)) if kept is None else kept
        groups = np.searchsorted(chosen, planned.groups)  # first image of each row among those that are kept
        patches, row = planner.patches, planner.patches.row
        grids = sizes[chosen].astype(np.int64) // patches.size
        offsets = np.concatenate(([0], np.cumsum(grids.prod(axis=1))))
        packed = Packed(Ragged(np.zeros(offsets[-1], np.uint8), offsets), groups)
        pack = Pack(outputs=("segment_ids", "cu_seqlens"), max_sequences=planner.max_images)
        arrays = pack(packed, row)
        real = arrays["segment_ids"] > 0  # patches come row by row, as in a packed row
        coordinates = np.zeros((*real.shape, 2), np.int64)
        values, coordinates[real] = cut_patches(collected.images[0], chosen, grids, patches.size)
        filled = np.zeros((*real.shape, values.shape[1]), values.dtype)
        filled[real] = values
        shown = planned.positions[chosen]
        arrays |= {"patch_positions": coordinates, "mask": planned.mask[planned.groups[:-1]]}
        arrays["row"] = _by_segment(shown, groups, planner.max_images)
        if "label" in config.columns:
            arrays["label"] = _by_segment(config.dataset.values("label", shown), groups, planner.max_images)
        if captions := planner.captions:
            drawn = captions.draw(shown, planned.draw_keys[chosen], config.draw_seed, self._epoch)
            arrays |= captions.packed(config.columns, drawn, groups, planner.max_images)
        columns = {name: self._adapter.column(arrays[name]) for name in config.columns if name != "patches"}
        with self._totals.worker.stage("copying"):
            columns["patches"] = self._adapter.images(filled, config.image_format.dtype)
        return config.batch_type(*(columns[name] for name in config.columns))


def _by_segment(values: Int64, groups: Int64, most: int) -> Int64:
    """(rows, most) int64: the value of each image of each packed row; -1 after the last."""
    table = np.full((len(groups) - 1, most), -1, np.int64)
    table[np.arange(most) < np.diff(groups)[:, None]] = values
    return table


def cut_patches(images: Array, chosen: Int64, grids: Int64, size: int) -> tuple[Array, Int64]:
    """Cut images into patches, image after image, row of patches after row."""
    # images (N, H, W, C), chosen (K,) int64, grids (K, 2) int64 -> (T, size * size * C)
    n, height, width, channels = images.shape
    view = images.reshape(n, height // size, size, width // size, size, channels).transpose(0, 1, 3, 2, 4, 5)
    rows, columns = np.arange(view.shape[1])[:, None], np.arange(view.shape[2])
    inside = (rows < grids[:, 0, None, None]) & (columns < grids[:, 1, None, None])
    number, row, column = np.nonzero(inside)
    return view[chosen[number], row, column].reshape(len(number), -1), np.stack([row, column], axis=1)


def _with_views(values: Array, views: int | None) -> Array:
    """(M, ...) as (V, M / V, ...); unchanged without views."""
    return values if views is None else values.reshape(views, len(values) // views, *values.shape[1:])


def cut_images(images: Any, sizes: npt.NDArray[np.int32], layout: Layout) -> list[Any]:
    """A list of the images without their padding; where the framework allows it, views of the batch."""
    # sizes (N, 2)
    if layout == "NCHW":
        return [images[i][:, :height, :width] for i, (height, width) in enumerate(sizes.tolist())]
    return [images[i][:height, :width] for i, (height, width) in enumerate(sizes.tolist())]


def cut_masks(masks: Sequence[Any], sizes: npt.NDArray[np.int32]) -> list[Any]:
    """Masks of each image, (..., H, W), without what belongs to the padding of the image."""
    pairs = zip(masks, sizes.tolist(), strict=True)
    return [one[..., :height, :width] for one, (height, width) in pairs]


def function_output_spec(config: ImageLoaderConfig, adapter: Adapter, n: int) -> ColumnSpec:
    """Dtype and shape of the images that the user's functions return, found by calls with ``n`` zeros."""
    # If batches differ in size, the functions are called with the smallest and the largest size.
    image_format, column = config.image_format, config.images[0]
    shapes = []
    for size in {min(column.by_size, default=column.plan.size, key=math.prod), column.plan.size}:
        images = adapter.images(
            np.zeros(image_format.shape(n, size), image_format.numpy_dtype), image_format.dtype
        )
        for function in config.batch_transform_plan.functions:
            images = _run(function, images, n)
        shapes.append(tuple(images.shape[1:]))
    # PyTorch's dtypes have no attribute name; their text is "torch.float32".
    name = getattr(images.dtype, "name", None) or str(images.dtype).rpartition(".")[2]
    shape = (sides[0] if len(set(sides)) == 1 else None for sides in zip(*shapes, strict=True))
    return ColumnSpec("image", name, tuple(shape))


def _run(function: Callable[[Any], Any], images: Any, n: int) -> Any:
    images = function(images)
    if not hasattr(images, "shape") or images.shape[:1] != (n,):
        found = f"shape {tuple(images.shape)}" if hasattr(images, "shape") else repr(type(images))
        raise ConfigError(
            f"{function_name(function)} must return an array of {n} images, and has returned {found}",
            hint="Return as many images as the function was given.",
        )
    return images


def multi_hot(labels: Int64, counts: Int64, num_classes: int) -> npt.NDArray[np.float32]:
    """(N, num_classes) float32, 1 for each of a sample's labels."""
    # labels (L,) int64, counts (N,) int64
    outside = (labels < 0) | (labels >= num_classes)
    if outside.any():
        raise DatasetError(
            f"label {int(labels[outside][0])} in a dataset of {num_classes} classes",
            hint="Convert the source again with all of its classes.",
        )
    hot = np.zeros((len(counts), num_classes), np.float32)
    hot[np.repeat(np.arange(len(counts)), counts), labels] = 1
    return hot
