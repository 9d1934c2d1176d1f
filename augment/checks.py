"""Checks of a list of transforms: without them a mistake would show only in wrong pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from .state.transform_state import TransformState
from .steps import Displace
from .transforms.base import Transform
from .transforms.combining.base import Combining
from .transforms.combining.mosaic import DetectionMosaic
from .transforms.pixels.output import Form, OutputTransform
from .transforms.policies.apply import NestedTransform, RandomChoice

_LARGEST_SIDE = 32768
"""Pixels: the native engine's limit of an output or a canvas."""


def checked_transform(transform: object, before: Sequence[Transform]) -> Transform:
    """Return ``transform`` itself; ConfigError where it cannot follow the transforms ``before``."""
    if isinstance(transform, type):
        name = transform.__name__
        raise ConfigError(f"transforms has the class {name}", hint=f"Give an instance, {name}(...).")
    if not isinstance(transform, Transform):
        raise ConfigError(
            f"transforms must be transforms of stoker.augment; found {transform!r}",
            hint="Transforms of torchvision have counterparts of the same name there.",
        )
    if isinstance(transform, RandomChoice) and transform.on_batches:
        raise ConfigError(
            "transforms has a RandomChoice of transforms of batches, which only a loader applies",
            hint="Give it to a loader, after the transforms of images.",
        )
    _check_class(transform)
    if before and before[-1].late and not transform.late:
        name = type(transform).__name__
        raise ConfigError(f"{name} stands after {type(before[-1]).__name__}", hint=f"Move {name} before it.")
    return transform


def _check_class(transform: Transform) -> None:
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
    parts: Sequence[Any] = transform.transforms if isinstance(transform, NestedTransform) else ()
    for part in parts:
        _check_class(part)


def fixed_size(size: Size | None) -> Size:
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


def check_channels(transform: Transform, state: TransformState, channels: int, *, deep: bool) -> None:
    """Raise ConfigError if ``transform``, after which the batch is ``state``, does not suit the channels.

    ``deep`` says whether the images have other channels than RGB or grey.
    """
    name = type(transform).__name__
    colored = state.color.changed or not all(isinstance(step, Displace) for step in state.color.steps)
    if deep and (colored or state.padding or state.parts is not None):
        raise ConfigError(
            f"{name} executes on RGB and grey images alone, and color='rgba' or 'as_stored' makes others",
            hint="Leave it out, or load with color='rgb' or color='gray'.",
        )
    if (deep or channels == 1) and len(set(state.fill.tolist())) > 1:
        raise ConfigError(
            f"{name} fills with {tuple(state.fill.tolist())}, and the images are not RGB",
            hint="Give fill one level, for all channels.",
        )


def check_combined(transforms: Sequence[Transform], form: Form, *, padded: bool) -> None:
    """Raise ConfigError for a transform that combines images and whose neighbours do not fit."""
    combining = [one for one in transforms if isinstance(one, Combining)]
    if not combining:
        return
    name = type(combining[0]).__name__
    layered = [type(one).__name__ for one in combining if one.layered]
    if len(layered) > 1:
        raise ConfigError(f"{layered[1]} stands after {layered[0]}", hint="Use one of the two in a list.")
    for transform in transforms[1:]:
        if isinstance(transform, DetectionMosaic):
            raise ConfigError(
                "DetectionMosaic must be the first transform",
                hint="It resizes its images itself: leave out what is before it, or move that after it.",
            )
    if padded or form.mean is not None:
        other = "sizes" if padded else "SubtractMean"
        raise ConfigError(f"{other} and {name} cannot be combined", hint="Leave one of the two out.")
    continuing = (one for one in transforms if getattr(one, "padding_mode", "constant") != "constant")
    for one in continuing:
        raise ConfigError(
            f"{type(one).__name__} continues images beyond their border, and {name} makes images of several",
            hint="Use padding_mode='constant'.",
        )


def check_mean(form: Form, *, padded: bool) -> None:
    """Raise ConfigError where a mean image cannot be subtracted: of other dtypes, and in padded batches."""
    if form.mean is None:
        return
    if form.dtype != "float32":
        raise ConfigError(
            f"SubtractMean makes float32, and {form.dtype} was asked for",
            hint="Leave the dtype out, and convert the batch.",
        )
    if padded:
        raise ConfigError(
            "sizes: SubtractMean needs batches of images of one size",
            hint="Resize or crop all images to one size and leave sizes out, or leave out SubtractMean.",
        )


def check_moved_with_mean(transform: Transform, state: TransformState) -> None:
    """Raise ConfigError if ``transform``, the last one, moved pixels as a mean image cannot follow."""
    displaced = any(isinstance(step, Displace) for step in state.color.steps)
    if state.warp or state.padding or state.erased or displaced:
        raise ConfigError(
            f"SubtractMean follows crops, resizes and flips, and {type(transform).__name__} does more",
            hint="Leave one of the two out.",
        )


def check_size(transform: Transform, found: npt.NDArray[np.int64], size: Size | None) -> None:
    """Raise ConfigError where sizes of images, (2, N), are not what ``transform`` promised; None for any."""
    if size is None:
        return
    differs = found != np.array(size)[:, None]
    if not differs.any():
        return
    height, width = found[:, differs.any(axis=0)][:, 0].tolist()
    raise ConfigError(
        f"{transform!r} made an image {height} x {width} pixels (height x width) "
        f"where its output_size says {size[0]} x {size[1]}",
        hint="Let output_size(size) give the size that params makes, or None where samples differ in it.",
    )


def check_padded(transforms: Sequence[Transform], *, deep: bool) -> None:
    """Raise ConfigError for transforms and channels whose images must all have one size."""
    if deep:
        raise ConfigError(
            "sizes: images that keep their sizes must be RGB or grey",
            hint="Resize all images to one size and leave sizes out, or choose color='rgb' or 'gray'.",
        )
    for transform in transforms:
        parts = [part for part in getattr(transform, "transforms", ()) if isinstance(part, Transform)]
        check_padded(parts, deep=deep)
        if transform.warps or getattr(transform, "padding_mode", "constant") != "constant":
            what = "warps images" if transform.warps else "continues images beyond their border"
            raise ConfigError(
                f"sizes: {type(transform).__name__} {what}, which needs batches of one size",
                hint="Leave the transform out, or resize all images to one size and leave sizes out.",
            )
