"""Boxes, masks and keypoints of batches, made on threads beside the engine that makes the images."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from stoker.augment.geometry.transform import transform_mask
from stoker.errors import DecodeError, SampleError
from stoker.formats.codecs.registry import open_image

from .mask_drawing import MaskMemory, bad_polygons, bad_runs, draw_class_masks
from .objects import EXTRA, BatchObjects, ObjectConfig, transform_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams
    from stoker.formats.dataset.annotations import Annotations
    from stoker.formats.dataset.samples import Samples

    from ..order.sample_source import SampleSource

    Int64 = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.integer[Any]]

__all__ = ["AnnotationProcessor", "BatchAnnotations", "MaskConfig"]

# Pillow's modes whose values are classes: those of a palette are its entries' numbers.
_MODES = ("1", "L", "P", "I;16", "I")

_BAD_RUNS = "the run lengths of a mask are not those of its image"
_BAD_POLYGON = "a polygon has a vertex that is no place"


@dataclass(frozen=True)
class MaskConfig:
    """How masks of classes leave.

    Attributes:
        dtype: "uint8", or "int64" where values need more.
        ignore: Value of pixels that show nothing of the source.
    """

    dtype: str
    ignore: int


@dataclass(frozen=True, eq=False)
class BatchAnnotations:
    """What belongs to the N images of a batch.

    Attributes:
        objects: Of all its images; None where none are wanted.
        masks: (N, H, W), the masks of classes; None where none are wanted. Zeros where there was an error.
        errors: By position in the batch, what is wrong with a sample's annotations.
    """

    objects: BatchObjects | None = None
    masks: Mask | None = None
    errors: dict[int, SampleError] = field(default_factory=dict)


class AnnotationProcessor:
    """Reads, decodes and transforms the annotations of a dataset's samples, a batch on a thread.

    Args:
        dataset: What has them.
        objects: How objects leave; None where they only decide (``ImagePlan.uses_boxes``) or less.
        masks: How masks of classes leave; None where they are not wanted.
        needs_boxes: Whether :meth:`read` is to read objects.
        num_threads: Threads, from 1.
    """

    def __init__(
        self,
        dataset: SampleSource,
        objects: ObjectConfig | None,
        masks: MaskConfig | None,
        *,
        needs_boxes: bool,
        num_threads: int,
    ) -> None:
        self._dataset = dataset
        self._objects = objects
        self._masks = masks
        self._reads = needs_boxes or objects is not None
        self._parts = frozenset() if objects is None else _parts(objects)
        self._has_masks = masks is not None or (objects is not None and "masks" in objects.columns)
        self._memory = MaskMemory()
        self._pool = ThreadPoolExecutor(num_threads, "stoker-annotations")

    def read(self, positions: Int64) -> Annotations | None:
        """The objects of samples, or None where nothing wants them.

        Args:
            positions: (N,) in the dataset.
        """
        return self._dataset.annotations(positions, self._parts) if self._reads else None

    def start(
        self, positions: Int64, samples: Samples, params: ImageParams, annotations: Annotations | None
    ) -> Callable[[], BatchAnnotations]:
        """Transform the annotations of a batch, masks in the background.

        Args:
            positions: (N,) in the dataset.
            samples: The same samples.
            params: What was decided for them.
            annotations: What :meth:`read` gave.

        Returns:
            What waits for them.
        """
        if not self._has_masks:
            # Some hundred numbers: another thread would need longer to get the interpreter.
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
        if self._objects is not None and annotations is not None:
            if "masks" in self._objects.columns:
                errors = self._damaged(positions, samples, annotations)
                if errors:
                    annotations = annotations.take(~np.isin(annotations.owner, list(errors)))
            size = samples.height, samples.width
            objects = transform_objects(annotations, params, *size, self._objects, memory=self._memory)
        if self._masks is not None:
            masks = self._draw_masks(self._masks, positions, samples, params, errors)
        return BatchAnnotations(objects, masks, errors)

    def _draw_masks(
        self,
        config: MaskConfig,
        positions: Int64,
        samples: Samples,
        params: ImageParams,
        errors: dict[int, SampleError],
    ) -> Mask:
        """(N, H, W); what is wrong with some of them goes to ``errors``."""
        masks = np.zeros((len(positions), *params.size), config.dtype)
        files = [self._read_mask(position) for position in positions.tolist()]
        others: Iterable[int] = range(len(files))
        if masks.dtype == np.uint8:  # as nearly all are
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
        return masks

    def _damaged(
        self, positions: Int64, samples: Samples, annotations: Annotations
    ) -> dict[int, SampleError]:
        """Errors of the samples with an object whose outline or run lengths cannot be those of a mask."""
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
        """The file of one sample's mask, or what is wrong with it."""
        try:
            return self._dataset.mask(position)
        except SampleError as error:
            return error
        except OSError as error:
            return self._dataset.error(position, f"the mask cannot be read: {error}")

    def _decode_mask(
        self, position: int, file: bytes | SampleError, size: tuple[int, int], dtype: str
    ) -> Mask | SampleError:
        """A mask, (H, W), which must be as large as the source; or what is wrong with it."""
        if isinstance(file, SampleError):
            return file
        try:
            return _decode(file, size, dtype)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            return self._dataset.error(position, f"the mask cannot be decoded: {error}", DecodeError)


def _parts(config: ObjectConfig) -> frozenset[str]:
    """What is to be read for the columns, as :meth:`Dataset.annotations` calls it."""
    parts = config.columns & {"keypoints"}
    if "masks" in config.columns:
        parts |= {"polygons", "runs"}
    if any(name.startswith(EXTRA) for name in config.columns - {"object_id"}):
        parts |= {"extra"}
    return parts


def _decode(data: bytes, size: tuple[int, int], dtype: str) -> Mask:
    with open_image(data) as image:
        if (image.height, image.width) != size:  # by its header: nothing is decoded
            raise ValueError(f"it has {image.height} x {image.width} pixels, its image {size[0]} x {size[1]}")
        if image.mode not in _MODES:
            raise ValueError(f"Pillow's mode {image.mode}, where a pixel should be one number")
        mask = np.asarray(image)
    if int(mask.max(initial=0)) > np.iinfo(dtype).max:
        raise ValueError(
            f"it holds the value {mask.max()}, and masks of this dataset leave as {dtype}; convert it with "
            "--ignore-index 65535, or with the names of all classes in classes.txt, for int64"
        )
    return mask.astype(dtype)
