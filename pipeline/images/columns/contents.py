"""The contents of a batch before they are arrays of the framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from stoker.augment.batch import BatchParams
from stoker.errors import SampleError
from stoker.types import Layout

from ..annotations.annotation_processor import BatchAnnotations
from ..annotations.objects import BatchObjects, ObjectConfig
from .array_reader import BatchArrays

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Contents:
    """What a batch of N samples holds besides its images."""

    # Annotations of each column of images, M images of N samples in each
    annotated: Sequence[BatchAnnotations]
    # Matrices of each column of images, (M, 3, 3) float64; None where no column needs them
    to_source: Sequence[Array | None]
    # Heights and widths of each column of images, (M, 2); None where all fill their array
    image_sizes: Sequence[Array | None]
    arrays: BatchArrays | None  # Arrays of the dataset; None if there are no such columns
    errors: dict[int, SampleError]  # Errors in what belongs to samples, by index in the batch

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
    """A column of images, and the annotations that follow them; None if no column needs these."""

    images: Any  # (M, ...) of NumPy, or on a GPU of the framework
    objects: BatchObjects | None  # Objects of all images
    masks: Array | None  # (M, H, W), class masks
    patches: Array | None  # (M, rows, columns) bool, patches to hide
    to_source: Array | None  # (M, 3, 3) float64, from the pixels of the images to those of their sources
    # (M, 2) int32, heights and widths of the images; None where all fill their array
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
