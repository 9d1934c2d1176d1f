"""The contents of a batch before they are arrays of the framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from stoker.augment.batch.base import BatchParams
from stoker.errors import SampleError
from stoker.types import Layout

from ..annotations.annotation_processor import BatchAnnotations
from ..annotations.objects import BatchObjects, ObjectConfig
from .array_reader import BatchArrays

Array = npt.NDArray[Any]

__all__ = ["Contents", "ImageContents"]


@dataclass(frozen=True, eq=False)
class Contents:
    """What a batch of N samples holds besides its images.

    Attributes:
        annotated: Annotations of each column of images, M images of N samples in each.
        to_source: Matrices of each column of images, (M, 3, 3) float64; None where no column needs them.
        image_sizes: Heights and widths of each column of images, (M, 2); None where all fill their array.
        arrays: Arrays of the dataset; None if there are no such columns.
        errors: Errors in what belongs to samples, by index in the batch.
    """

    annotated: Sequence[BatchAnnotations]
    to_source: Sequence[Array | None]
    image_sizes: Sequence[Array | None]
    arrays: BatchArrays | None
    errors: dict[int, SampleError]

    @classmethod
    def of(
        cls,
        n: int,
        annotated: Sequence[BatchAnnotations],
        to_source: Sequence[Array | None],
        image_sizes: Sequence[Array | None],
        arrays: tuple[BatchArrays, dict[int, SampleError]] | None,
    ) -> Contents:
        """The contents of a batch of ``n`` samples, with the errors of all parts."""
        batch_arrays, array_errors = arrays or (None, {})
        errors = {image % n: error for one in annotated for image, error in one.errors.items()}
        return cls(annotated, to_source, image_sizes, batch_arrays, {**array_errors, **errors})


@dataclass(frozen=True, eq=False)
class ImageContents:
    """A column of images, and the annotations that follow them; None if no column needs these.

    Attributes:
        images: (M, ...) of NumPy, or on a GPU of the framework.
        objects: Objects of all images.
        masks: (M, H, W), class masks.
        patches: (M, rows, columns) bool, patches to hide.
        to_source: (M, 3, 3) float64, from the pixels of the images to those of their sources.
        image_size: (M, 2) int32, heights and widths of the images; None where all fill their array.
    """

    images: Any
    objects: BatchObjects | None
    masks: Array | None
    patches: Array | None
    to_source: Array | None
    image_size: Array | None = None

    def mixed(
        self, params: BatchParams, mix: Callable[..., Any], layout: Layout, config: ObjectConfig
    ) -> ImageContents:
        """The images after a transform of batches; ``mix`` applies its parameters to them."""
        objects, masks = self.objects, self.masks
        return ImageContents(
            mix(params, self.images, layout),
            None if objects is None else objects.mixed(params, config),
            None if masks is None else params.segmentation(masks),
            self.patches,
            self.to_source,
        )
