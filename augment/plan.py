"""Plans: checked lists of transforms, which decide the parameters of each batch for a loader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.processes import cached_property
from stoker.random import derive_key, uniform
from stoker.types import DType, Size

from .geometry.boxes import Objects
from .params import Channels, ImageParams, Parts
from .state import TransformState, stretched_mean
from .steps import Displace, is_custom, last_custom_names
from .transforms.base import Description, Transform
from .transforms.combining import Combining, CopyPaste, Mosaic, Partners, add_parts
from .transforms.nested import NestedTransform, RandomChoice
from .transforms.output import Form, OutputTransform, RandomErasing, ToDtype

Int = npt.NDArray[np.int64]

_LARGEST_SIDE = 32768
"""Pixels: the native engine's limit of an output or a canvas."""


@dataclass(frozen=True, eq=False)
class ImagePlan:
    """A checked list of transforms, which decides the parameters of any batch.

    :func:`compile_image` makes it, and documents ``deep``, ``pad_to_multiple_of`` and ``image_size``.
    """

    transforms: tuple[Transform, ...]
    # Height and width after each transform, pixels, or None where the sizes of samples differ
    sizes: tuple[Size | None, ...]
    size: Size  # Of the output; with ``pad_to_multiple_of`` the smallest of a batch
    canvas: Size | None  # Of the image that is warped; None where none is
    form: Form
    deep: bool = False
    # (2, 3) or (2, C) float64 for each RandomErasing, in the units of the output: its value, and its value
    # plus the standard deviation of its noise
    erase_values: tuple[npt.NDArray[np.float64], ...] = ()
    pad_to_multiple_of: int | None = None
    image_size: Size | None = None

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
        return _combining(self.transforms)

    @property
    def buffer(self) -> int:
        """Number of draws from which mosaics take their samples; 0 for all draws of the epoch."""
        return max((one.buffer or 0 for one in self.combining if isinstance(one, Mosaic)), default=0)

    @property
    def pastes(self) -> bool:
        """Whether objects are pasted, so that a loader draws their masks."""
        return any(isinstance(one, CopyPaste) for one in self.combining)

    @property
    def needs(self) -> frozenset[str]:
        """Names of what engines must execute beyond resampling and one matrix of colours."""
        return self._probe.needs() | ({"image_size"} if self.pad_to_multiple_of else set())

    @property
    def last_custom_steps(self) -> frozenset[str]:
        """Names in :attr:`needs` of custom steps that come after all other steps, so Python can run them."""
        return last_custom_names(self._probe.steps or ())

    @cached_property
    def is_divisible(self) -> bool:
        """Whether several batches can be drawn at once, for :meth:`ImageParams.take` to divide."""
        # The images of a batch may depend on each other, and the arrays of a user's step may have any form.
        together = self.pad_to_multiple_of or self.combining or self.form.mean is not None
        return not together and not any(map(is_custom, self._probe.steps or ()))

    @cached_property
    def _probe(self) -> ImageParams:
        """Parameters of one image: of the size that all have, or larger than any crop."""
        height, width = (np.full(1, side) for side in self.image_size or (2**20, 2**20))
        return replace(self, pad_to_multiple_of=None).draw(height, width, np.zeros(1, np.int64), 0, 0)

    def parts(self, keys: Int, draws: Int, partners: Partners) -> Parts:
        """Decide which samples N images show, from the keys of their random numbers and their draws, (N,)."""
        parts = Parts.of(keys, draws)
        for index, transform in reversed(list(enumerate(self.transforms))):
            if isinstance(transform, Combining):
                parts = add_parts(transform, parts, index, partners)
        return parts

    def draw(
        self,
        height: npt.NDArray[np.integer[Any]],
        width: npt.NDArray[np.integer[Any]],
        samples: Int,
        seed: int,
        epoch: int,
        *,
        objects: Objects | None = None,
        parts: Parts | None = None,
    ) -> ImageParams:
        """Decide the parameters of N samples: a pure function, sample by sample; or raise ConfigError.

        Args:
            height: (N,) integers, pixels, after the EXIF orientation has been applied.
            width: (N,) likewise.
            samples: (N,) int64, rows of the samples in the index; they key the random numbers.
            seed: Any integer.
            epoch: Any integer.
            objects: Boxes of the samples' objects, on which plans with :attr:`uses_boxes` depend.
            parts: The parts of images that the samples are, for plans with :attr:`combining`, which then
                ignore ``samples``. By default each image shows its sample alone.
        """
        if self.combining:
            parts = parts or Parts.of(samples)
        state = TransformState.of(height, width, objects, parts)
        for index, (transform, size) in enumerate(zip(self.transforms, self.sizes, strict=True)):
            if not isinstance(transform, OutputTransform):
                keys = samples
                if parts is not None:  # layers have numbers of their own until they are merged
                    merges = any(one.layer_key for one in _combining(self.transforms[index + 1 :]))
                    keys = parts.keys if merges else parts.image_keys
                u = uniform(derive_key(seed, epoch, index), keys, transform.draws)
                transform.params(state, u)
                self._check(transform, state, size)
        if not self.deep:
            state.color.affine(self.form.matrix)
        size, image_size = self.size, None
        if multiple := self.pad_to_multiple_of:
            largest = state.size.max(axis=1, initial=1)
            rows, columns = (-(-largest // multiple) * multiple).tolist()
            size, image_size = _fixed((rows, columns)), np.ascontiguousarray(state.size.T, np.int32)
        params = state.finished(size, image_size, self.canvas, self.erase_values)
        if self.form.mean is not None:
            stored = np.column_stack((height, width))
            mean = stretched_mean(params, self.form.mean, self.form.scale, stored)
            params = replace(params, mean_image=mean)
        if not self.deep:
            return params
        scale, shift = self.form.scale.astype(np.float32), self.form.shift.astype(np.float32)
        fill = np.full(len(scale), state.fill[0] * (self.form.white / 255), np.float32)
        return replace(params, channels=Channels(scale, shift, fill))

    def _check(self, transform: Transform, state: TransformState, size: Size | None) -> None:
        """Raise ConfigError if what ``transform`` made does not suit its promised size or the channels."""
        if size is not None and (differs := state.size != np.array(size)[:, None]).any():
            height, width = state.size[:, differs.any(axis=0)][:, 0].tolist()
            raise ConfigError(
                f"{transform!r} made an image {height} x {width} pixels (height x width) "
                f"where its output_size says {size[0]} x {size[1]}",
                hint="Let output_size(size) give the size that params makes, or None where samples differ.",
            )
        displaced = [isinstance(step, Displace) for step in state.color.steps]
        colored = state.color.changed or not all(displaced)
        if self.deep and (colored or state.padding or state.parts is not None):
            raise ConfigError(
                f"{_name(transform)} executes on RGB and grey images alone, and color='rgba' or 'as_stored' "
                "makes others",
                hint="Leave it out, or load with color='rgb' or color='gray'.",
            )
        if (self.deep or len(self.form.scale) == 1) and len(set(state.fill.tolist())) > 1:
            raise ConfigError(
                f"{_name(transform)} fills with {tuple(state.fill.tolist())}, and the images are not RGB",
                hint="Give fill one level, for all channels.",
            )
        if self.form.mean is not None and (state.warp or state.padding or state.erased or any(displaced)):
            raise ConfigError(
                f"SubtractMean follows crops, resizes and flips, and {_name(transform)} does more",
                hint="Leave one of the two out.",
            )

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
    image_size: Size | None = None,
) -> ImagePlan:
    """Check a list of transforms and prepare it for drawing.

    Geometry and colour may come in any order: geometry is executed first. RandomErasing, Normalize and
    ToDtype come last. A list of another order, or whose images have no common size, is a ConfigError.

    Args:
        transforms: Applied in this order. Transforms of batches are refused: a loader applies them.
        dtype: Element type of the output; by default float32 after Normalize, else uint8. Floats are in 0..1
            unless ``ToDtype(scale=False)`` or Normalize says otherwise.
        channels: Number of channels of the images, from 1; Normalize needs it.
        deep: Whether these are other channels than RGB or grey, so that their colours may not change.
        bits: Bits of a level of the images: 8 or 16, or 32 if levels are floats.
        pad_to_multiple_of: Images may leave the transforms in different sizes: a batch is as high and wide
            as its largest image, rounded up to a multiple of this. None where all must have one size.
        image_size: Height and width of all images before the transforms; None where they differ.
    """
    size = image_size
    canvas: Size | None = None
    form = Form.of_levels(channels, bits)
    erased: list[npt.NDArray[np.float64]] = []
    checked: list[Transform] = []
    sizes: list[Size | None] = []
    for given in transforms:
        transform = _checked(given, checked)
        checked.append(transform)
        if transform.warps:
            canvas = canvas or transform.canvas or _fixed(size)
        size = transform.output_size(size)
        sizes.append(size)
        if isinstance(transform, OutputTransform):
            form = transform.convert(form)
        elif isinstance(transform, RandomErasing):
            levels = form.to_levels(transform.values(form))
            erased.append(levels if deep else np.broadcast_to(levels, (2, 3)))  # engines execute grey as RGB
    multiple = pad_to_multiple_of
    if multiple:
        _check_padded(checked, deep=deep)
    _check_combined(checked, form, padded=bool(multiple))
    size = (multiple, multiple) if multiple else _fixed(size)
    if dtype is not None:
        form = ToDtype(dtype).convert(form)
    if form.mean is not None and form.dtype != "float32":
        raise ConfigError(
            f"SubtractMean makes float32, and {form.dtype} was asked for",
            hint="Leave the dtype out, and convert the batch.",
        )
    if form.mean is not None and multiple:
        raise ConfigError(
            "sizes: SubtractMean needs images of one size",
            hint="Resize or crop all images to one size and leave sizes out, or leave out SubtractMean.",
        )
    values = tuple(map(form.from_levels, erased))
    plan = ImagePlan(tuple(checked), tuple(sizes), size, canvas, form, deep, values, multiple, image_size)
    _ = plan.needs  # what cannot be composed is refused here, not in training
    return plan


def resized(transforms: Sequence[Description], size: Size) -> list[Description]:
    """The transforms with ``size``, height and width in pixels, as size of the last crop or resize."""
    changed = list(transforms)
    for index, transform in reversed(list(enumerate(changed))):
        if isinstance(transform, Transform) and (sized := transform.with_size(size)):
            changed[index] = sized
            break
    else:
        raise ConfigError(
            "sizes: no crop or resize stands in the list of transforms",
            hint="Add RandomResizedCrop(size), CenterCrop(size) or Resize((height, width)).",
        )
    final_size: Size | None = size
    for after in changed[index + 1 :]:
        final_size = after.output_size(final_size) if isinstance(after, Transform) else final_size
    if final_size != size:
        raise ConfigError(
            f"sizes: {_name(transform)} leaves images of the size, and a transform after it changes that",
            hint="Move the last crop or resize after all transforms that pad or turn with expand=True.",
        )
    return changed


def _combining(transforms: Sequence[Transform]) -> tuple[Combining, ...]:
    return tuple(one for one in transforms if isinstance(one, Combining))


def _name(transform: object) -> str:
    return type(transform).__name__


def _checked(transform: object, before: Sequence[Transform]) -> Transform:
    """Return ``transform`` itself; ConfigError where it cannot follow the transforms ``before``."""
    if isinstance(transform, type):
        name = transform.__name__
        raise ConfigError(f"transforms has the class {name}", hint=f"Give an instance, {name}(...).")
    if not isinstance(transform, Transform):
        raise ConfigError(
            f"transforms must be transforms of stoker.augment, found {transform!r}",
            hint="Transforms of torchvision have counterparts of the same name there.",
        )
    if isinstance(transform, RandomChoice) and transform.on_batches:
        raise ConfigError(
            "transforms has a RandomChoice of transforms of batches, which only a loader applies",
            hint="Give it to a loader, after the transforms of images.",
        )
    _check_class(transform)
    if before and before[-1].late and not transform.late:
        name = _name(transform)
        raise ConfigError(f"{name} stands after {_name(before[-1])}", hint=f"Move {name} before it.")
    return transform


def _check_class(transform: Any) -> None:
    """Raise ConfigError where a class, or one within it, hides its arguments or decides nothing."""
    kind = type(transform)
    hidden = vars(transform).keys() - {field.name for field in fields(transform)} - vars(Transform).keys()
    if hidden and "__dataclass_params__" not in vars(kind):
        raise ConfigError(
            f"{kind.__name__} is not a dataclass, so checkpoints and recipes cannot hold its {min(hidden)}",
            hint=f"Put @dataclass(frozen=True) above class {kind.__name__}, and make its arguments fields.",
        )
    if kind.params is Transform.params and not isinstance(transform, OutputTransform):
        raise ConfigError(
            f"{kind.__name__} has no method params(self, state, u), which decides what it does to a batch",
            hint="Rename its method decide to params." if hasattr(kind, "decide") else "Define it.",
        )
    for part in transform.transforms if isinstance(transform, NestedTransform) else ():
        _check_class(part)


def _fixed(size: Size | None) -> Size:
    """Return ``size``; ConfigError if it is None, for images of different sizes, or too large."""
    if size is None:
        raise ConfigError(
            "the transforms leave images of different sizes, which cannot be warped or form a batch",
            hint="Add CenterCrop(size), or Resize((height, width)), or RandomResizedCrop(size). A loader "
            "also pads batches: sizes='padded'.",
        )
    if max(size) > _LARGEST_SIDE:
        raise ConfigError(
            f"images have {size[0]} x {size[1]} pixels (height x width); a side has {_LARGEST_SIDE} at most",
            hint="Choose a smaller size.",
        )
    return size


def _continues(transform: Transform) -> bool:
    """Whether a transform continues images beyond their border."""
    return getattr(transform, "padding_mode", "constant") != "constant"


def _check_combined(transforms: Sequence[Transform], form: Form, *, padded: bool) -> None:
    """Raise ConfigError for a transform that combines images and whose neighbours do not fit."""
    combining = _combining(transforms)
    if not combining:
        return
    name = _name(combining[0])
    layered = [_name(one) for one in combining if one.layer_key]
    if len(layered) > 1:
        raise ConfigError(f"{layered[1]} stands after {layered[0]}", hint="Use one of the two in a list.")
    if any(isinstance(transform, Mosaic) for transform in transforms[1:]):
        raise ConfigError(
            "Mosaic must be the first transform",
            hint="It resizes its images itself: leave out what is before it, or move that after it.",
        )
    if padded or form.mean is not None:
        other = "sizes" if padded else "SubtractMean"
        raise ConfigError(f"{other} and {name} cannot be combined", hint="Leave one of the two out.")
    if continuing := next(filter(_continues, transforms), None):
        raise ConfigError(
            f"{_name(continuing)} continues images beyond their border, and {name} makes images of several",
            hint="Use padding_mode='constant'.",
        )


def _check_padded(transforms: Sequence[Transform], *, deep: bool) -> None:
    """Raise ConfigError for transforms and channels whose images must all have one size."""
    if deep:
        raise ConfigError(
            "sizes: images that keep their sizes must be RGB or grey",
            hint="Resize all images to one size and leave sizes out, or choose color='rgb' or 'gray'.",
        )
    for transform in transforms:
        parts = [part for part in getattr(transform, "transforms", ()) if isinstance(part, Transform)]
        _check_padded(parts, deep=deep)
        if transform.warps or _continues(transform):
            what = "warps images" if transform.warps else "continues images beyond their border"
            raise ConfigError(
                f"sizes: {_name(transform)} {what}, which needs batches of one size",
                hint="Leave the transform out, or resize all images to one size and leave sizes out.",
            )
