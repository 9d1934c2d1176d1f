"""Parameters of a batch: what the transforms decided, and all that an engine needs to know."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.random import derive_key, uniform

from ..state.transform_state import TransformState
from ..steps import step_names
from ..transforms.pixels.erase import RandomErasing
from ..transforms.pixels.output import Form, OutputTransform, ToDtype
from .checks import check_size, fixed_size, placed
from .optional_params import Border, Erase, Noise, Warp

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from ..geometry.boxes import Objects
    from ..steps import Step
    from ..transforms.base import Description, Size, Transform
    from ..transforms.pixels.output import DType

__all__ = ["ImageParams", "ImagePlan", "compile_image"]


@dataclass(frozen=True)
class ImageParams:
    """How N images become N arrays of one size.

    For each sample, in this order: ``crop`` is cut out of the oriented source; ``region`` of the
    source is resampled (Pillow's antialiased bilinear filter, if ``interpolation`` names no other) onto
    the rectangle ``dest`` of the output, reading no pixel outside ``crop`` and rounding to uint8; what lies
    outside ``dest`` is ``fill``; the output is mirrored as ``flip`` says; then each pixel becomes
    ``color[:, :3] @ rgb + color[:, 3]`` with rgb in 0..255. Where there is a ``warp``, it says how the
    source is resampled instead.

    Fields that are None by default ask for more. An engine that does not know one must refuse
    parameters in which it is set: see :meth:`needs`.

    Attributes:
        size: Height and width of the output, pixels, the same for all samples.
        crop: (N, 4) int32, top, left, height, width in pixels of the oriented source; within it.
        region: (N, 4) float64, top, left, bottom, right in the same coordinates (edges of pixels,
            as Pillow's ``resize(box=)``); within ``crop``.
        dest: (N, 4) int32, top, left, height, width in the output.
        flip: (N, 2) bool, horizontally, vertically.
        color: (N, 3, 4) float32; contains dtype scaling and normalisation.
        fill: (3,) uint8, RGB.
        interpolation: (N,) uint8, :class:`stoker.augment.geometry.interpolation.Interpolation`: the filter
        of samples
            that are not warped, or of their canvas where that is picked from.
        mean: (N, 3, 3) float32. ``mean @ m`` is added to the result, where m is the mean RGB of the
            output before ``color``, fill included.
        steps: Done to the pixels one after the other, before ``color``.
        warp: Geometry that is not along the axes; ``dest`` and ``flip`` then refer to its canvas.
        border: Rows and columns that the output, or the canvas, shows again; ``dest`` and ``flip`` then refer
            to its tile.
        erase: Boxes that are overwritten last, one after the other.
        window: (N, 4) float64, top, left, bottom, right in the source: an object whose box has its centre
            outside is no longer one of the image. None for no such condition. Of no concern to engines.
        empty: (N,) bool, images of which only padding is left; None for none. Likewise of no concern.
    """

    size: tuple[int, int]
    crop: npt.NDArray[np.int32]
    region: npt.NDArray[np.float64]
    dest: npt.NDArray[np.int32]
    flip: npt.NDArray[np.bool_]
    color: npt.NDArray[np.float32]
    fill: npt.NDArray[np.uint8]
    interpolation: npt.NDArray[np.uint8] | None = None
    mean: npt.NDArray[np.float32] | None = None
    steps: tuple[Step, ...] | None = None
    warp: Warp | None = None
    border: Border | None = None
    erase: tuple[Erase, ...] | None = None
    window: npt.NDArray[np.float64] | None = None
    empty: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.crop)

    def needs(self) -> frozenset[str]:
        """Names of the optional fields that are set; for ``steps`` those of its steps' classes.

        With "warp" comes "perspective" where matrices need not be affine, and "nearest" where samples may
        be; with "erase" comes "noise" where that comes into boxes.
        """
        optional = {field.name for field in fields(self) if field.default is None}
        optional -= {"steps", "window", "empty"}
        names = frozenset(name for name in optional if getattr(self, name) is not None)
        if self.warp is not None and self.warp.perspective:
            names |= {"perspective"}
        if self.warp is not None and self.warp.nearest is not None:
            names |= {"nearest"}
        if any(one.noise is not None for one in self.erase or ()):
            names |= {"noise"}
        return names | step_names(self.steps or ())

    def to_source(self) -> npt.NDArray[np.float64]:
        """(N, 3, 3), from homogeneous (x, y, 1) in the output to the source; edges of pixels are integers."""
        dest = self.dest.astype(np.float64)
        scale = (self.region[:, 2:] - self.region[:, :2]) / dest[:, 2:]
        flip = self.flip[:, ::-1]
        size = self.upright_size()
        matrix = np.zeros((len(self), 3, 3))
        # Fields of this class have the vertical axis first, points the horizontal one.
        matrix[:, [1, 0], [1, 0]] = np.where(flip, -scale, scale)
        matrix[:, [1, 0], 2] = self.region[:, :2] + np.where(flip, size - dest[:, :2], -dest[:, :2]) * scale
        matrix[:, 2, 2] = 1
        if self.border is not None:
            matrix[:, :2, 2] += matrix[:, [0, 1], [0, 1]] * self.border.origin[:, ::-1]
        return matrix @ self.warp.matrix if self.warp else matrix

    def upright_size(self) -> npt.NDArray[np.integer[Any]]:
        """Heights and widths, (N, 2) or (2,), of what ``dest`` and ``flip`` refer to."""
        if self.border is not None:
            return self.border.size
        return np.array(self.warp.canvas if self.warp else self.size)


@dataclass(frozen=True, eq=False)
class ImagePlan:
    """Transforms that were checked; decides the parameters of any batch.

    Made by :func:`compile_image`.

    Attributes:
        transforms: As they were given.
        sizes: Height and width after each, pixels, or None where samples differ in it.
        size: Height and width of the output, pixels.
        canvas: Height and width of the image that is warped, or None where none is.
        form: Element type of the output and the affine map of colours that leads there.
        erase_values: (2, 3) float64 for each RandomErasing, in the units of the output: its value, and the
            same plus once the deviation of its noise.
    """

    transforms: tuple[Transform, ...]
    sizes: tuple[Size | None, ...]
    size: Size
    canvas: Size | None
    form: Form
    erase_values: tuple[npt.NDArray[np.float64], ...] = ()

    @property
    def dtype(self) -> DType:
        """Element type of the output; float32 where a transform wants a float and none was asked for."""
        return self.form.dtype

    @property
    def random(self) -> bool:
        """Whether the parameters depend on seed and epoch."""
        return any(transform.draws for transform in self.transforms)

    @property
    def uses_boxes(self) -> bool:
        """Whether the parameters depend on where the objects lie, so that :meth:`draw` wants them."""
        return any(transform.uses_boxes for transform in self.transforms)

    @property
    def needs(self) -> frozenset[str]:
        """What engines must execute for this plan beyond resampling and one colour matrix, by name."""
        return _probe(self).needs()

    def draw(
        self,
        height: npt.NDArray[np.integer[Any]],
        width: npt.NDArray[np.integer[Any]],
        samples: npt.NDArray[np.int64],
        seed: int,
        epoch: int,
        *,
        objects: Objects | None = None,
    ) -> ImageParams:
        """Decide the parameters of N samples: a pure function of its arguments, sample by sample.

        Args:
            height: (N,) integers, pixels, after the EXIF orientation has been applied.
            width: (N,) likewise.
            samples: (N,) int64, rows of the samples in the index; they key the random numbers.
            seed: Any integer.
            epoch: Any integer.
            objects: Boxes of the samples' objects, for plans with :attr:`uses_boxes`; others ignore them.
                Without them the samples have none.
        """
        frame = TransformState.of(height, width, objects)
        for position, (transform, size) in enumerate(zip(self.transforms, self.sizes, strict=True)):
            if not isinstance(transform, OutputTransform):
                u = uniform(derive_key(seed, epoch, position), samples, transform.draws)
                transform.params(frame, u)
                check_size(transform, frame.size, size)
        frame.paint(self.form.matrix)
        return _params(frame, self)

    def to_json(self) -> dict[str, Any]:
        """All that decides the parameters, as a dictionary that JSON can hold."""
        return {
            "transforms": [transform.to_dict() for transform in self.transforms],
            "size": list(self.size),
            "dtype": self.dtype,
        }


def compile_image(transforms: Sequence[Description], dtype: DType | None = None) -> ImagePlan:
    """Check a list of transforms and prepare it for drawing.

    Geometry and colour may come in any order, for they do not depend on each other: geometry is
    executed first. RandomErasing, Normalize and ToDtype come last.

    Args:
        transforms: Applied in this order. Those of batches, which a recipe may hold too, are refused:
            they are a loader's.
        dtype: Element type of the output. By default what the transforms say: float32 after
            Normalize, else uint8. Floats are in 0..1 unless ``ToDtype(scale=False)`` or Normalize
            says otherwise.

    Raises:
        ConfigError: What is no transform, an order or a dtype that cannot be meant, or an output
            whose size differs from sample to sample.
    """
    size: Size | None = None
    canvas: Size | None = None
    form = Form("uint8", np.eye(3, 4))
    erased: list[npt.NDArray[np.float64]] = []
    checked: list[Transform] = []
    sizes: list[Size | None] = []
    for given in transforms:
        transform = placed(given, checked)
        checked.append(transform)
        if transform.warps:
            canvas = canvas or fixed_size(size)
        size = transform.output_size(size)
        sizes.append(size)
        if isinstance(transform, OutputTransform):
            form = transform.convert(form)
        elif isinstance(transform, RandomErasing):
            erased.append(form.to_rgb(transform.levels()))
    size = fixed_size(size)
    if dtype is not None:
        form = ToDtype(dtype).convert(form)
    plan = ImagePlan(tuple(checked), tuple(sizes), size, canvas, form, tuple(map(form.from_rgb, erased)))
    _probe(plan)  # what cannot be composed is refused here, not in training
    return plan


def _probe(plan: ImagePlan) -> ImageParams:
    """Parameters of one image that is too large for any crop."""
    side = np.full(1, 2**20)
    return plan.draw(side, side, np.zeros(1, np.int64), 0, 0)


def _params(frame: TransformState, plan: ImagePlan) -> ImageParams:
    """Write a finished frame in the form that engines take."""
    warp = None if frame.warp is None else frame.close_warp(fixed_size(plan.canvas))
    border = frame.close_border(plan.size if warp is None else warp.canvas)
    dest_start, dest_stop = frame.dest()
    empty = np.any(dest_stop <= dest_start, axis=0)
    if empty.any():
        frame.blank(empty)
        dest_start, dest_stop = frame.dest()
    dest_size = dest_stop - dest_start
    start, stop = frame.reach(dest_size)
    color, mean = frame.affine()
    return ImageParams(
        size=plan.size,
        crop=_rows(start, stop - start, np.int32),
        region=_rows(frame.content_start, frame.content_stop, np.float64),
        dest=_rows(dest_start, dest_size, np.int32),
        flip=np.ascontiguousarray(frame.flip[::-1].T),
        color=color,
        fill=frame.fill,
        interpolation=frame.interpolation,
        mean=mean,
        steps=tuple(frame.steps) or None,
        warp=warp,
        border=border,
        erase=tuple(
            _erase(*erased, *values) for erased, values in zip(frame.erased, plan.erase_values, strict=True)
        )
        or None,
        window=None if frame.window is None else _rows(*frame.window, np.float64),
        empty=empty,
    )


def _erase(origin: Any, size: Any, noise: Any, value: Any, noisy: Any) -> Erase:
    box, mean = _rows(origin, size, np.int32), value.astype(np.float32)
    return Erase(box, mean, None if noise is None else Noise(noise, (noisy - value).astype(np.float32)))


def _rows(first: npt.NDArray[Any], second: npt.NDArray[Any], dtype: type) -> npt.NDArray[Any]:
    """Two (2, N) arrays as (N, 4)."""
    rows: npt.NDArray[Any] = np.empty((first.shape[1], 4), dtype)
    rows[:, :2] = first.T
    rows[:, 2:] = second.T
    return rows
