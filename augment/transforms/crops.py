"""Crops, around the centre, objects or at random, and padding.

A ``padding_mode`` other than "constant" repeats parts of the resized image: crops, flips and warps may follow
it, but no resize. A class mask is continued like the image; objects are not repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.random import derive_key, uniform
from stoker.types import Size

from ..state import MODES, TransformState
from .base import (
    ATTEMPTS,
    SMALLEST,
    Float,
    Int,
    Transform,
    added,
    as_pair,
    as_tuple,
    between,
    first_fit,
    random_keys,
)


@dataclass(frozen=True)
class CenterCrop(Transform):
    """Cut out the centre; an image that is smaller is padded, with black unless another transform has a fill.

    Args:
        size: (height, width) in pixels, or one number for a square.
        fill: As for :class:`stoker.augment.Pad`; None leaves the choice to other transforms.

    An odd margin is rounded as in torchvision.
    """

    size: int | Sequence[int]
    fill: int | Sequence[int] | None = added(None)

    sized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_size()
        self.set_fill(optional=True)

    def params(self, state: TransformState, u: Float) -> None:
        state.use_fill(self.fill)
        size = np.array(self.size)[:, None]
        margin = state.size - size
        origin = np.where(margin > 0, np.rint(margin / 2), -(-margin // 2)).astype(np.int64)
        state.crop(origin, size)


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """Cut out a part of random area and aspect ratio, and resize it ("Inception crop").

    Args:
        size: (height, width) of the output in pixels, or one number for a square.
        scale: Range of the part's area as a share of the image's, drawn uniformly.
        ratio: Range of its aspect ratio, width over height, drawn uniformly in the logarithm.
        interpolation: As for :class:`stoker.augment.Resize`.
        antialias: Likewise.

    The distribution is torchvision's: an area and a ratio are drawn up to ten times, and the first part that
    fits gets a uniform location; if none fits, it is the largest central part within ``ratio``. About one
    sample in 10**12 depends on the last bit of the platform's ``exp``.
    """

    size: int | Sequence[int]
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    interpolation: str | Enum = "bilinear"
    antialias: bool = added(True)

    draws: ClassVar[int] = 2 * ATTEMPTS + 2
    sized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_size()
        self.set_interpolation()
        self.check_antialias()
        self.set_range("scale", 0, math.inf, "a pair of finite numbers, 0 <= low <= high")
        self.set_range("ratio", SMALLEST, math.inf, "a pair of finite numbers, 0 < low <= high")

    def params(self, state: TransformState, u: Float) -> None:
        size, fits = first_fit(state.size, (1, state.size), self.scale, self.ratio, u[:, : 2 * ATTEMPTS])
        missing = np.flatnonzero(~fits)
        if missing.size:
            height, width = state.size[:, missing]
            low, high = self.ratio
            size[0, missing] = np.maximum(np.where(width / height < low, np.rint(width / low), height), 1)
            size[1, missing] = np.maximum(np.where(width / height > high, np.rint(height * high), width), 1)
        margin = state.size - size
        origin = (u[:, 2 * ATTEMPTS :].T * (margin + 1)).astype(np.int64)
        origin[:, missing] = margin[:, missing] // 2
        state.crop(origin, size)
        state.resize(np.array(self.size)[:, None], self.interpolation, antialias=self.antialias)


@dataclass(frozen=True)
class CoverCrop(Transform):
    """Resize the image until it just covers a size, and cut out that size. The aspect ratio stays.

    Args:
        size: (height, width) of the output in pixels, or one number for a square.
        random: Whether the crop lies at a uniform location; otherwise it is the centre, rounded down.
        interpolation: As for :class:`stoker.augment.Resize`.

    The resized side that exceeds the size is rounded to whole pixels.
    """

    size: int | Sequence[int]
    random: bool = True
    interpolation: str | Enum = "bilinear"

    draws: ClassVar[int] = 2
    sized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_size()
        self.check_flag("random")
        self.set_interpolation()
        self.set("draws", 2 if self.random else 0)

    def params(self, state: TransformState, u: Float) -> None:
        size = np.array(self.size)[:, None]
        scale = (size / state.size).max(axis=0)
        resized = np.maximum(np.rint(state.size * scale).astype(np.int64), size)
        state.resize(resized, self.interpolation)
        margin = resized - size
        state.crop((u.T * (margin + 1)).astype(np.int64) if self.random else margin // 2, size)


_ROUNDS = 100  # with the default options, 2 samples in 10**15 have no result after them


@dataclass(frozen=True)
class RandomIoUCrop(Transform):
    """Cut out a part that overlaps some box well enough (Liu et al., "SSD", 2016).

    An option is drawn uniformly. An option of 1 or more leaves the image as it is. A smaller option is the
    smallest IoU (intersection over union) that the part must have with a box whose centre it contains. Then
    ``trials`` parts of uniform height, width and location are drawn, and the first part is taken that has
    such an IoU and an allowed aspect ratio. If there is none, another option is drawn. Objects are dropped
    if the centres of their boxes are outside of the part (in torchvision, SanitizeBoundingBoxes does that).
    Images without boxes stay as they are, and those for which a hundred options gave no part.

    Args:
        min_scale: Smallest height and width of the part, as shares of the image's.
        max_scale: Largest height and width of the part, likewise.
        min_aspect_ratio: Smallest width over height of the part, in pixels.
        max_aspect_ratio: Largest width over height of the part, in pixels.
        sampler_options: Options that are drawn from; None for (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0).
        trials: Number of parts that are drawn for each option.
    """

    min_scale: float = 0.3
    max_scale: float = 1.0
    min_aspect_ratio: float = 0.5
    max_aspect_ratio: float = 2.0
    sampler_options: Sequence[float] | None = None
    trials: int = 40

    draws: ClassVar[int] = 1
    varies: ClassVar[bool] = True
    uses_boxes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        rule = "numbers, 0 < min_scale <= max_scale <= 1"
        self.check_number("min_scale", rule, SMALLEST)
        self.check_number("max_scale", rule, self.min_scale, 1)
        rule = "numbers, 0 < min_aspect_ratio <= max_aspect_ratio"
        self.check_number("min_aspect_ratio", rule, SMALLEST)
        self.check_number("max_aspect_ratio", rule, self.min_aspect_ratio)
        if self.sampler_options is None:
            self.set("sampler_options", (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0))
        self.set_numbers("sampler_options", "None or numbers, one at least")
        self.set_whole("trials")

    def params(self, state: TransformState, u: Float) -> None:
        state.refuse_after_warp("RandomIoUCrop", hint="Move it before the warp.")
        origin, size = np.zeros_like(state.size), state.size.copy()
        cut = np.zeros(len(u), np.bool_)
        boxes, owner = state.objects.seen(state.geometry)
        # Few of the many rounds are needed: each draws its numbers, for the samples still without result.
        keys = random_keys(u[:, 0]).view(np.int64)
        waiting = np.unique(owner)
        for number in range(_ROUNDS):
            v = uniform(derive_key(0, 0, number), keys[waiting], 1 + 4 * self.trials)
            option = np.array(self.sampler_options)[(v[:, 0] * len(self.sampler_options or ())).astype(int)]
            leave = option >= 1
            trying, v, option = waiting[~leave], v[~leave, 1:], option[~leave]
            index = np.searchsorted(trying, owner)
            mine = np.append(trying, -1)[index] == owner
            found, start, extent = self._first(state.size[:, trying], v, option, boxes[mine], index[mine])
            chosen = trying[found]
            origin[:, chosen], size[:, chosen], cut[chosen] = start[:, found], extent[:, found], True
            waiting = trying[~found]
            if not waiting.size:
                break
        state.crop(origin, size)
        state.objects.restrict(cut, state.geometry)

    def _first(
        self, image: Int, v: Float, option: Float, boxes: Float, owner: Int
    ) -> tuple[npt.NDArray[np.bool_], Int, Int]:
        """The first suitable part of each of K images: which have one, (K,), origins and sizes, (2, K)."""
        # ``v``, (K, 4 * trials), are width, height, left and top of each part; each image has a box.
        width, height, left, top = np.moveaxis(v.reshape(-1, self.trials, 4), -1, 0)
        share = self.min_scale + (self.max_scale - self.min_scale) * np.stack((height, width))
        size = (image[..., None] * share).astype(np.int64)
        origin = ((image[..., None] - size) * np.stack((top, left))).astype(np.int64)
        ratio = np.divide(size[1], size[0], out=np.zeros(size[0].shape), where=size[0] > 0)
        good = (self.min_aspect_ratio <= ratio) & (ratio <= self.max_aspect_ratio)
        overlap = _iou(boxes, origin[:, owner], size[:, owner]) >= option[owner, None]
        if owner.size:
            good &= np.logical_or.reduceat(overlap, np.searchsorted(owner, np.arange(len(option))))
        rows, first = np.arange(len(good)), np.argmax(good, axis=1)
        return good[rows, first], origin[:, rows, first], size[:, rows, first]


def _iou(boxes: Float, origin: Int, size: Int) -> Float:
    """IoU of boxes, (M, 4), with T parts of the image each, (2, M, T); -1 where the centre is outside."""
    low, high = boxes[:, 1::-1].T[..., None], boxes[:, :1:-1].T[..., None]
    center, stop = (low + high) / 2, origin + size
    inside = (origin < center) & (center < stop)
    sides = np.maximum(np.minimum(high, stop) - np.maximum(low, origin), 0)
    shared = sides[0] * sides[1]
    union = (high - low).prod(axis=0) + size[0] * size[1] - shared
    share = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return np.where(inside[0] & inside[1], share, -1.0)


@dataclass(frozen=True)
class ObjectCrop(Transform):
    """Cut out the box of an object with some of what is around it, scaled and rotated at random.

    The box is extended to the aspect ratio of ``size`` around its centre, and by ``padding``, and fills the
    output. The defaults draw nothing, as for validation; training has
    ``ObjectCrop((256, 192), scale=0.35, degrees=40)`` (Xiao et al., "Simple baselines for human pose
    estimation and tracking", ECCV 2018; MMPose's TopdownAffine). Centres of pixels are at 0.5, as in "The
    devil is in the details" (Huang et al., CVPR 2020). ``dataset.select(each="object")`` makes a sample of
    each object. An image with several objects is cut out around all of them, one without is shown whole.

    Args:
        size: (height, width) in pixels, or one number for a square.
        padding: Factor by which the extended box is enlarged.
        scale: Standard deviation of a further factor, normal around 1 and cut off at this distance.
        degrees: Standard deviation of the rotation, normal around 0 and cut off at twice this number.
        p: Probability of a rotation.
        fill: As for :class:`stoker.augment.RandomRotation`.
    """

    size: int | Sequence[int]
    padding: float = 1.25
    scale: float = 0.0
    degrees: float = 0.0
    p: float = 0.6
    fill: int | Sequence[int] | None = None

    draws: ClassVar[int] = 5
    sized: ClassVar[bool] = True
    warps: ClassVar[bool] = True
    uses_boxes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_size()
        self.check_positive("padding")
        self.check_number("scale", "a number from 0 to below 1", 0, math.nextafter(1, 0))
        self.check_number("degrees", "a number from 0 to 180", 0, 180)
        self.check_probability()
        self.set_fill(optional=True)

    @property
    def canvas(self) -> Size:
        return as_pair(self.size)

    def params(self, state: TransformState, u: Float) -> None:
        if state.parts is not None:
            raise ConfigError(
                "ObjectCrop stands after a transform that makes one image of several samples",
                hint="Leave one of the two out: the objects of all samples would be cut out apart.",
            )
        state.refuse_after_warp("ObjectCrop", hint="Rotate by its argument degrees.")
        state.use_fill(self.fill)
        image = state.size[::-1].astype(np.float64)  # width and height, as points have x first
        start, stop = _extents(state, image)
        output = np.array(self.canvas[::-1], np.float64)[:, None]
        matrix = self._to_image((start + stop) / 2, stop - start, output, u)
        matrix[:, :2] *= (output / image).T[:, :, None]  # pixels of the canvas
        state.resize(np.array(self.canvas)[:, None])
        state.distort(matrix, direct=True)

    def _to_image(self, center: Float, extent: Float, output: Float, u: Float) -> Float:
        """(N, 3, 3), from (x, y, 1) in the output to the image; boxes have centres and sizes, (2, N)."""
        unit = np.maximum(extent[0] / output[0], extent[1] / output[1]) * self.padding
        normal = _normal(u[:, :2]), _normal(u[:, 2:4])
        unit = unit * (1 + self.scale * normal[0].clip(-1, 1))
        angle = np.radians(self.degrees) * normal[1].clip(-2, 2) * (u[:, 4] < self.p)
        matrix = np.zeros((len(u), 3, 3))
        matrix[:, 0, 0] = matrix[:, 1, 1] = unit * np.cos(angle)
        matrix[:, 1, 0] = unit * np.sin(angle)
        matrix[:, 0, 1] = -matrix[:, 1, 0]
        matrix[:, 2, 2] = 1
        half = output[:, 0] / 2
        matrix[:, :2, 2] = center.T - matrix[:, :2, 0] * half[0] - matrix[:, :2, 1] * half[1]
        return matrix


def _extents(state: TransformState, image: Float) -> tuple[Float, Float]:
    """Top left and bottom right of what the objects of each image cover, (2, N) x and y; else of all."""
    boxes, owner = state.objects.seen(state.geometry)
    start, stop = np.zeros_like(image), image.copy()
    if len(owner):
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        start[:, owner[first]] = np.minimum.reduceat(boxes[:, :2], first).T
        stop[:, owner[first]] = np.maximum.reduceat(boxes[:, 2:], first).T
    return start, stop


def _normal(u: Float) -> Float:
    """(N,) normally distributed numbers of (N, 2) uniform ones (Box and Muller, 1958)."""
    return np.asarray(np.sqrt(-2 * np.log1p(-u[:, 0])) * np.cos(2 * np.pi * u[:, 1]))


@dataclass(frozen=True)
class Pad(Transform):
    """Add a border.

    Args:
        padding: Width of the border in pixels: one number, or two (left and right, top and bottom),
            or four (left, top, right, bottom).
        fill: Level 0..255 or three of them (RGB). A list of transforms has one fill, which
            CenterCrop and the warps in the list also use.
        padding_mode: "constant" for ``fill``, or how the image is continued: "edge" repeats its last row or
            column, "reflect" mirrors it about their centres, "symmetric" about its border, repeatedly if the
            border is wide. A list of transforms has at most one border that is not constant.
    """

    padding: int | Sequence[int]
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        _set_padding(self)
        self.set_fill()
        _check_mode(self)

    def params(self, state: TransformState, u: Float) -> None:
        left, top, right, bottom = as_tuple(self.padding, 4)
        _pad(state, np.array([[top], [left]]), np.array([[bottom], [right]]), self)

    def output_size(self, size: Size | None) -> Size | None:
        if size is None:
            return None
        left, top, right, bottom = as_tuple(self.padding, 4)
        return size[0] + top + bottom, size[1] + left + right


@dataclass(frozen=True)
class RandomCrop(Transform):
    """Cut out a part of fixed size at a uniform location.

    Args:
        size: (height, width) in pixels, or one number for a square.
        padding: Border to add before, as for :class:`Pad`, or None.
        pad_if_needed: Whether an image that is still smaller is padded, on either side by the whole
            difference, as in torchvision. Otherwise such an image raises ConfigError.
        fill: As for :class:`Pad`.
        padding_mode: As for :class:`Pad`.
    """

    size: int | Sequence[int]
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False
    fill: int | Sequence[int] = 0
    padding_mode: str = "constant"

    draws: ClassVar[int] = 2
    sized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_size()
        if self.padding is not None:
            _set_padding(self)
        self.check_flag("pad_if_needed")
        self.set_fill()
        _check_mode(self)

    def params(self, state: TransformState, u: Float) -> None:
        size = np.array(self.size)[:, None]
        left, top, right, bottom = as_tuple(self.padding or 0, 4)
        before, after = np.array([[top], [left]]), np.array([[bottom], [right]])
        missing = np.maximum(size - (state.size + before + after), 0)
        if missing.any() and not self.pad_if_needed:
            height, width = (state.size + before + after)[:, missing.any(axis=0).argmax()]
            raise ConfigError(
                f"RandomCrop: size {self.size} is larger than an image of {height} x {width}",
                hint="Resize before it, or set pad_if_needed=True.",
            )
        # Whether padding continues the image must not depend on the images of a batch.
        may_continue = self.pad_if_needed and self.padding_mode != "constant"
        if self.padding is not None or missing.any() or may_continue:
            _pad(state, before + missing, after + missing, self)
        state.crop((u.T * (state.size - size + 1)).astype(np.int64), size)


def _pad(state: TransformState, before: Int, after: Int, how: Pad | RandomCrop) -> None:
    """Add rows and columns before and after, (2, N) or (2, 1)."""
    if how.padding_mode == "constant":
        state.use_fill(how.fill)
        state.crop(-before, state.size + before + after)
    else:
        state.pad(how.padding_mode, before, after)


def _check_mode(transform: Pad | RandomCrop) -> None:
    modes = ("constant", *MODES)
    transform.check("padding_mode", transform.padding_mode in modes, f"one of {', '.join(modes)}")


def _set_padding(transform: Pad | RandomCrop) -> None:
    rule = "one, two or four integers from 0, pixels"
    transform.set_numbers("padding", rule, lambda sides: len(sides) in (2, 4), times=4, whole=True)
    transform.set("padding", (as_tuple(transform.padding, 4) * 2)[:4])


@dataclass(frozen=True)
class RandomZoomOut(Transform):
    """Put the image at a uniform location in a larger one, with probability ``p`` (Liu et al., "SSD", 2016).

    Args:
        fill: Level 0..255 or three of them (RGB). A list of transforms has one fill.
        side_range: Range of the factor of height and width, from 1; drawn uniformly.
        p: Probability.
    """

    fill: int | Sequence[int] = 0
    side_range: Sequence[float] = (1.0, 4.0)
    p: float = 0.5

    draws: ClassVar[int] = 4
    varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_fill()
        self.set_range("side_range", 1, math.inf, "a pair of finite numbers, 1 <= low <= high")
        self.check_probability()

    def params(self, state: TransformState, u: Float) -> None:
        state.use_fill(self.fill)
        factor = np.where(u[:, 0] < self.p, between(self.side_range, u[:, 1]), 1.0)
        size = (state.size * factor).astype(np.int64)
        state.crop(-((size - state.size) * u[:, :1:-1].T).astype(np.int64), size)
