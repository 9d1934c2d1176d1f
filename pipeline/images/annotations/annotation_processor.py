"""Boxes, masks and keypoints of batches, made beside the engine that makes the images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.geometry.annotations import displace_masks, transform_mask
from stoker.augment.params import ImageParams
from stoker.errors import DecodeError, SampleError
from stoker.formats.codecs.header import open_mask
from stoker.formats.dataset.annotations import Annotations
from stoker.formats.dataset.index import Samples

from ...order.sample_source import SampleSource
from .annotation_config import AnnotationConfig, MaskConfig
from .class_drawing import draw_classes
from .composing import composed_errors, composed_masks, composed_objects
from .mask_drawing import MaskMemory, bad_polygons, bad_runs, draw_class_masks
from .objects import EXTRA_PREFIX, BatchObjects, ObjectConfig, transform_objects
from .pasting import covered_objects, remaining, with_pasted_masks

Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.integer[Any]]

# Pillow's modes in which a pixel is one number. In a palette, it is the number of an entry.
_MODES = ("1", "L", "P", "I;16", "I")

_BAD_RUNS = "the run lengths of a mask are not those of its image"
_BAD_POLYGON = "a polygon has a vertex that is not finite"


@dataclass(frozen=True, eq=False)
class BatchAnnotations:
    """Annotations of the N images of a batch, after their transforms."""

    objects: BatchObjects | None = None  # Objects of all images; None if there is no column of objects
    # (N, H, W), class masks, zeros for a sample with an error; None if there is no such column
    masks: Mask | None = None
    # Errors in the annotations of samples, by index in the batch
    errors: dict[int, SampleError] = field(default_factory=dict)


class AnnotationProcessor:
    """Reads, decodes and transforms the annotations of samples, one batch on each of its threads."""

    def __init__(self, dataset: SampleSource, config: AnnotationConfig, num_threads: int) -> None:
        objects, masks = config.objects if config.objects.columns else None, config.masks
        self._dataset = dataset
        self._objects = objects
        self._masks = masks
        self._draws_classes = masks is not None and masks.from_objects
        self._draws_objects = config.pastes or (objects is not None and "masks" in objects.columns)
        self._pastes = config.pastes
        self._reads = config.needs_boxes or config.pastes or objects is not None or self._draws_classes
        self._parts = frozenset() if objects is None else _parts(objects)
        if self._draws_classes or self._draws_objects:
            self._parts |= {"polygons", "runs"}
        self._has_masks = masks is not None or self._draws_objects
        self._memory = MaskMemory()
        self._pool = ThreadPoolExecutor(num_threads, "stoker-annotations")

    def read(self, positions: Int64) -> Annotations | None:
        """Objects of samples; None if neither a column nor a transform needs them."""
        # positions (N,) int64
        return self._dataset.annotations(positions, self._parts) if self._reads else None

    def pasted(
        self, positions: Int64, samples: Samples, params: ImageParams, annotations: Annotations | None
    ) -> ImageParams:
        """The parameters with the masks of the objects that a transform pastes; see :meth:`start`.

        Objects of samples with errors are left out: :meth:`start` finds these errors, too.
        """
        if not self._pastes or annotations is None:
            return params
        errors = self._damaged(positions, samples, annotations)
        sound = annotations.take(~np.isin(annotations.owner, list(errors))) if errors else annotations
        size = samples.height, samples.width
        return with_pasted_masks(params, sound, *size, config=self._rules, memory=self._memory)

    @property
    def _rules(self) -> ObjectConfig:
        return self._objects or ObjectConfig()

    def start(
        self, positions: Int64, samples: Samples, params: ImageParams, annotations: Annotations | None
    ) -> Callable[[], BatchAnnotations]:
        """Start to transform the annotations of a batch; those with masks on a thread."""
        # positions (N,) int64
        if not self._has_masks:
            # The work on a few hundred numbers takes less time than a thread needs to get the interpreter.
            annotated = self._annotate(positions, samples, params, annotations)
            return lambda: annotated
        return self._pool.submit(self._annotate, positions, samples, params, annotations).result

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _annotate(
        self, positions: Int64, samples: Samples, params: ImageParams, annotations: Annotations | None
    ) -> BatchAnnotations:
        errors: dict[int, SampleError] = {}
        objects = masks = None
        size = samples.height, samples.width
        if annotations is not None and (self._draws_classes or self._draws_objects):
            errors = self._damaged(positions, samples, annotations)
            if errors:
                annotations = annotations.take(~np.isin(annotations.owner, list(errors)))
        if self._objects is not None and annotations is not None:
            objects = self._transform_objects(annotations, params, samples, self._objects)
        if self._masks is not None and annotations is not None and self._draws_classes:
            dtype, ignore = self._masks.dtype, self._masks.ignore
            masks = draw_classes(annotations, params, *size, dtype=dtype, ignore=ignore, memory=self._memory)
            masks[list(errors)] = 0
        elif self._masks is not None:
            masks = self._draw_masks(self._masks, positions, samples, params, errors)
        if composition := params.composition:
            objects = None if objects is None else composed_objects(objects, composition)
            if masks is not None and self._masks is not None:
                masks = composed_masks(masks, composition, self._masks.ignore)
            errors = composed_errors(errors, composition)
        return BatchAnnotations(objects, masks, errors)

    def _transform_objects(
        self, annotations: Annotations, params: ImageParams, samples: Samples, config: ObjectConfig
    ) -> BatchObjects:
        """Objects under their transforms, without what pasted objects cover."""
        size = samples.height, samples.width
        if not self._pastes:
            return transform_objects(annotations, params, *size, config, memory=self._memory)
        kept = annotations.take(remaining(params, annotations, config))
        drawn = replace(config, columns=config.columns | {"masks"})
        return covered_objects(
            transform_objects(kept, params, *size, drawn, memory=self._memory), params, config
        )

    def _draw_masks(
        self,
        config: MaskConfig,
        positions: Int64,
        samples: Samples,
        params: ImageParams,
        errors: dict[int, SampleError],
    ) -> Mask:
        """Class masks, (N, H, W); errors of single masks are added to ``errors``."""
        masks = np.zeros((len(positions), *params.size), config.dtype)
        files = [self._read_mask(position) for position in positions.tolist()]
        others: Iterable[int] = range(len(files))
        if masks.dtype == np.uint8:  # which C++ draws
            data = [b"" if isinstance(file, SampleError) else file for file in files]
            size = samples.height, samples.width
            others = draw_class_masks(params, data, *size, ignore=config.ignore, out=masks)
        for i in others:
            height, width = int(samples.height[i]), int(samples.width[i])
            mask = self._decode_mask(int(positions[i]), files[i], (height, width), config.dtype)
            if isinstance(mask, SampleError):
                errors[i] = mask
            else:
                masks[i] = transform_mask(params, i, mask, config.ignore)
        return displace_masks(params, masks, np.arange(len(masks)), config.ignore)

    def _damaged(
        self, positions: Int64, samples: Samples, annotations: Annotations
    ) -> dict[int, SampleError]:
        """Errors of samples that have an object with an impossible polygon or impossible run lengths."""
        errors: dict[int, SampleError] = {}
        pixels = samples.height.astype(np.int64) * samples.width
        for message, bad in (
            (_BAD_RUNS, bad_runs(annotations.runs or (), pixels[annotations.owner])),
            (_BAD_POLYGON, bad_polygons(annotations.polygons or ())),
        ):
            for i in annotations.owner[bad].tolist():
                errors[i] = self._dataset.error(int(positions[i]), message)
        return errors

    def _read_mask(self, position: int) -> bytes | SampleError:
        """File of one sample's mask, or the error that it raised."""
        try:
            return self._dataset.mask(position)
        except SampleError as error:
            return error
        except OSError as error:
            return self._dataset.error(position, f"the mask cannot be read: {error}")

    def _decode_mask(
        self, position: int, file: bytes | SampleError, size: tuple[int, int], dtype: str
    ) -> Mask | SampleError:
        """A mask, (H, W), of the size of its image; or the error of the mask."""
        if isinstance(file, SampleError):
            return file
        try:
            return decode_mask(file, size, dtype)
        except Exception as error:  # Pillow's parsers raise almost anything on damaged data
            return self._dataset.error(position, f"the mask cannot be decoded: {error}", DecodeError)


def _parts(config: ObjectConfig) -> frozenset[str]:
    """Parts of annotations that columns without masks need, as :meth:`Dataset.annotations` names them."""
    parts = config.columns & {"keypoints"}
    if any(name.startswith(EXTRA_PREFIX) for name in config.columns - {"object_id"}):
        parts |= {"extra"}
    return parts


def decode_mask(data: bytes, size: tuple[int, int], dtype: str) -> Mask:
    """Decode a mask, (H, W), of an image of ``size``, height and width."""
    with open_mask(data) as image:
        if (image.height, image.width) != size:  # read from the header
            raise ValueError(f"it has {image.height} x {image.width} pixels, its image {size[0]} x {size[1]}")
        if image.mode not in _MODES:
            raise ValueError(f"it has Pillow's mode {image.mode}, and a pixel of a mask is one number")
        mask = np.asarray(image)
    if int(mask.max(initial=0)) > np.iinfo(dtype).max:
        raise ValueError(
            f"it holds the value {mask.max()}, and the loader hands out masks of this dataset as {dtype}; "
            "convert it with --ignore-index 65535, or with the names of all classes in classes.txt, for int64"
        )
    return mask.astype(dtype)
