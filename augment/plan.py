"""Plans: checked lists of transforms, which decide the parameters of each batch for a loader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.random import derive_key, uniform
from stoker.types import DType, Size

from .checks import (
    check_channels,
    check_combined,
    check_mean,
    check_moved_with_mean,
    check_padded,
    check_size,
    checked_transform,
    fixed_size,
)
from .description import Description
from .geometry.boxes import Objects
from .params.composition import Parts
from .params.image_params import ImageParams
from .params.optional_params import Channels
from .state.finished import finished_params, stretched_mean
from .state.transform_state import TransformState
from .steps.custom import is_custom, last_custom_names
from .transforms.base import Transform
from .transforms.combining.base import Combining, Partners
from .transforms.combining.copy_paste import CopyPaste
from .transforms.combining.mosaic import DetectionMosaic
from .transforms.pixels.erase import RandomErasing
from .transforms.pixels.output import Form, OutputTransform, ToDtype


@dataclass(frozen=True, eq=False)
class ImagePlan:
    """A checked list of transforms, which decides the parameters of any batch.

    :func:`compile_image` makes it.

    Attributes:
        transforms: Transforms in their order.
        sizes: Height and width after each transform, pixels, or None where the sizes of samples differ.
        size: Height and width of the output, pixels; with ``pad_to_multiple_of`` the smallest of a batch.
        canvas: Height and width of the image that is warped, or None where none is.
        form: Element type of the output and the affine map of colours that leads to it.
        deep: Whether the images have other channels than RGB or grey, so that their colours do not change.
        erase_values: (2, 3) or (2, C) float64 for each RandomErasing, in the units of the output: its value,
            and its value plus the deviation of its noise.
        pad_to_multiple_of: Images keep the sizes that the transforms leave. A batch is as high and wide as
            its largest, rounded up to a multiple of this. None where all images have ``size``.
    """

    transforms: tuple[Transform, ...]
    sizes: tuple[Size | None, ...]
    size: Size
    canvas: Size | None
    form: Form
    deep: bool = False
    erase_values: tuple[npt.NDArray[np.float64], ...] = ()
    pad_to_multiple_of: int | None = None

    @property
    def dtype(self) -> DType:
        """Element type of the output; float32 where a transform needs floats and no dtype was given."""
        return self.form.dtype

    @property
    def random(self) -> bool:
        """Whether the parameters depend on seed and epoch."""
        return any(transform.draws for transform in self.transforms)

    @property
    def uses_boxes(self) -> bool:
        """Whether the parameters depend on where the objects lie, so that :meth:`draw` needs them."""
        return any(transform.uses_boxes for transform in self.transforms)

    @property
    def combining(self) -> tuple[Combining, ...]:
        """The transforms that make one image of several samples."""
        return tuple(one for one in self.transforms if isinstance(one, Combining))

    @property
    def buffer(self) -> int:
        """Number of draws from which mosaics take their samples; 0 for all draws of the epoch."""
        mosaics = (one for one in self.transforms if isinstance(one, DetectionMosaic))
        return max((one.buffer or 0 for one in mosaics), default=0)

    @property
    def pastes(self) -> bool:
        """Whether objects are pasted, so that a loader draws their masks."""
        return any(isinstance(one, CopyPaste) for one in self.transforms)

    @property
    def needs(self) -> frozenset[str]:
        """Names of what engines must execute beyond resampling and one matrix of colours."""
        return _probe(self).needs() | ({"image_size"} if self.pad_to_multiple_of else set())

    @property
    def last_custom_steps(self) -> frozenset[str]:
        """Names in :attr:`needs` of custom steps that come after all other steps, so Python can run them."""
        return last_custom_names(_probe(self).steps or ())

    @cached_property
    def is_divisible(self) -> bool:
        """Whether several batches can be drawn at once, for :meth:`ImageParams.take` to divide.

        They cannot if images of a batch depend on each other, or if there is a user's step, whose arrays may
        have any form.
        """
        is_custom_free = not any(map(is_custom, _probe(self).steps or ()))
        return (
            is_custom_free and not self.pad_to_multiple_of and not self.combining and self.form.mean is None
        )

    def parts(self, keys: npt.NDArray[np.int64], draws: npt.NDArray[np.int64], partners: Partners) -> Parts:
        """Decide which samples N images show, from the keys of their random numbers and their draws, (N,)."""
        parts = Parts.of(keys, draws)
        for index, transform in reversed(list(enumerate(self.transforms))):
            if isinstance(transform, Combining):
                parts = transform.add_parts(parts, index, partners)
        return parts

    def draw(
        self,
        height: npt.NDArray[np.integer[Any]],
        width: npt.NDArray[np.integer[Any]],
        samples: npt.NDArray[np.int64],
        seed: int,
        epoch: int,
        *,
        objects: Objects | None = None,
        parts: Parts | None = None,
    ) -> ImageParams:
        """Decide the parameters of N samples: a pure function of its arguments, sample by sample.

        Args:
            height: (N,) integers, pixels, after the EXIF orientation has been applied.
            width: (N,) likewise.
            samples: (N,) int64, rows of the samples in the index; they key the random numbers.
            seed: Any integer.
            epoch: Any integer.
            objects: Boxes of the samples' objects, for plans with :attr:`uses_boxes`; other plans ignore
                them. By default the samples have no objects.
            parts: The parts of images that the samples are, for plans with :attr:`combining`; ``samples`` is
                then not used. By default each image shows its sample alone.

        Raises:
            ConfigError: A transform refuses an image, or the images of a batch are too large.
        """
        if self.combining:
            parts = parts or Parts.of(samples)
        state = TransformState.of(height, width, objects, parts)
        for index, (transform, size) in enumerate(zip(self.transforms, self.sizes, strict=True)):
            if not isinstance(transform, OutputTransform):
                keys = samples if parts is None else self._keys(parts, index)
                u = uniform(derive_key(seed, epoch, index), keys, transform.draws)
                transform.params(state, u)
                check_size(transform, state.size, size)
                check_channels(transform, state, len(self.form.scale), deep=self.deep)
                if self.form.mean is not None:
                    check_moved_with_mean(transform, state)
        if not self.deep:
            state.color.affine(self.form.matrix)
        size, image_size = (
            (self.size, None) if self.pad_to_multiple_of is None else _padded(state, self.pad_to_multiple_of)
        )
        params = finished_params(state, size, image_size, self.canvas, self.erase_values)
        if self.form.mean is not None:
            mean = stretched_mean(params, self.form.mean, self.form.scale, height, width)
            params = replace(params, mean_image=mean)
        return replace(params, channels=_channels(state, self.form)) if self.deep else params

    def _keys(self, parts: Parts, index: int) -> npt.NDArray[np.int64]:
        """Keys of a transform's random numbers: of layers before their merge, and of images afterwards."""
        merged = any(isinstance(one, Combining) and one.layered for one in self.transforms[index + 1 :])
        return parts.keys if merged else parts.image_keys

    def to_json(self) -> dict[str, Any]:
        """Everything that decides the parameters, as a dictionary that JSON can hold."""
        return {
            "transforms": [transform.identity() for transform in self.transforms],
            "size": list(self.size),
            "dtype": self.dtype,
        }


def compile_image(
    transforms: Sequence[Description],
    dtype: DType | None = None,
    channels: int = 3,
    *,
    deep: bool = False,
    bits: int = 8,
    pad_to_multiple_of: int | None = None,
) -> ImagePlan:
    """Check a list of transforms and prepare it for drawing.

    Geometry and colour may come in any order: they do not depend on each other, and geometry is executed
    first. RandomErasing, Normalize and ToDtype come last.

    Args:
        transforms: Applied in this order. Transforms of batches, which a recipe may hold too, are refused:
            a loader applies them.
        dtype: Element type of the output; by default float32 after Normalize, else uint8. Floats are in 0..1
            unless ``ToDtype(scale=False)`` or Normalize says otherwise.
        channels: Number of channels of the images, from 1; Normalize needs it.
        deep: Whether these are other channels than RGB or grey, so that their colours may not change.
        bits: Bits of a level of the images: 8 or 16, or 32 if levels are floats.
        pad_to_multiple_of: Images may leave the transforms in different sizes: a batch is as high and wide as
            its largest image, rounded up to a multiple of this. None where all must have one size.

    Raises:
        ConfigError: An item is no transform, the order or the dtype is invalid, or the size of the output
            differs from sample to sample.
    """
    size: Size | None = None
    canvas: Size | None = None
    form = Form.of_levels(channels, bits)
    erased: list[npt.NDArray[np.float64]] = []
    checked: list[Transform] = []
    sizes: list[Size | None] = []
    for given in transforms:
        transform = checked_transform(given, checked)
        checked.append(transform)
        if transform.warps:
            canvas = canvas or transform.canvas or fixed_size(size)
        size = transform.output_size(size)
        sizes.append(size)
        if isinstance(transform, OutputTransform):
            form = transform.convert(form)
        elif isinstance(transform, RandomErasing):
            levels = form.to_levels(transform.values(form))
            erased.append(levels if deep else np.broadcast_to(levels, (2, 3)))  # engines execute grey as RGB
    if pad_to_multiple_of:
        check_padded(checked, deep=deep)
    check_combined(checked, form, padded=pad_to_multiple_of is not None)
    size = (pad_to_multiple_of, pad_to_multiple_of) if pad_to_multiple_of else fixed_size(size)
    if dtype is not None:
        form = ToDtype(dtype).convert(form)
    values = tuple(map(form.from_levels, erased))
    check_mean(form, padded=pad_to_multiple_of is not None)
    plan = ImagePlan(tuple(checked), tuple(sizes), size, canvas, form, deep, values, pad_to_multiple_of)
    _probe(plan)  # what cannot be composed is refused here, not in training
    return plan


def _probe(plan: ImagePlan) -> ImageParams:
    """Parameters of one image that is larger than any crop."""
    side = np.full(1, 2**20)
    return replace(plan, pad_to_multiple_of=None).draw(side, side, np.zeros(1, np.int64), 0, 0)


def _channels(state: TransformState, form: Form) -> Channels:
    scale, shift = form.scale.astype(np.float32), form.shift.astype(np.float32)
    return Channels(scale, shift, np.full(len(scale), state.fill[0] * (form.white / 255), np.float32))


def _padded(state: TransformState, pad_to_multiple_of: int) -> tuple[Size, npt.NDArray[np.int32]]:
    """Height and width of a batch that holds all images, and those of the images, (N, 2)."""
    height, width = (
        -(-state.size.max(axis=1, initial=1) // pad_to_multiple_of) * pad_to_multiple_of
    ).tolist()
    return fixed_size((height, width)), np.ascontiguousarray(state.size.T, np.int32)
