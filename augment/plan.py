"""Plans: a list of transforms that was checked, and that decides the parameters of any batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.random import derive_key, uniform

from .checks import check_size, fixed_size, placed
from .params.image_params import ImageParams
from .params.optional_params import Erase, Noise
from .state.transform_state import TransformState
from .transforms.pixels.erase import RandomErasing
from .transforms.pixels.output import Form, OutputTransform, ToDtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.types import DType, Size

    from .description import Description
    from .geometry.boxes import Objects
    from .transforms.base import Transform

__all__ = ["ImagePlan", "compile_image"]


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
        frame.color.affine(self.form.matrix)
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
    geometry, objects = frame.geometry, frame.objects
    warp = None if frame.warp is None else frame.warp.params(fixed_size(plan.canvas))
    border = frame.close_padding(plan.size if warp is None else warp.canvas)
    canvas = geometry.size if frame.warp is None or border else frame.warp.canvas
    dest_start, dest_stop = geometry.dest(canvas)
    empty = np.any(dest_stop <= dest_start, axis=0)
    if empty.any():
        frame.blank(empty)
        dest_start, dest_stop = geometry.dest(canvas)
    dest_size = dest_stop - dest_start
    start, stop = geometry.reach(dest_size)
    color, mean_matrix = frame.color.parts()
    return ImageParams(
        size=plan.size,
        crop=_rows(start, stop - start, np.int32),
        region=_rows(geometry.content_start, geometry.content_stop, np.float64),
        dest=_rows(dest_start, dest_size, np.int32),
        flip=np.ascontiguousarray(geometry.flip[::-1].T),
        color=color,
        fill=frame.fill,
        interpolation=geometry.interpolation,
        mean_matrix=mean_matrix,
        steps=tuple(frame.color.steps) or None,
        warp=warp,
        border=border,
        erase=tuple(
            _erase(*erased, *values) for erased, values in zip(frame.erased, plan.erase_values, strict=True)
        )
        or None,
        window=_rows(objects.window_start, objects.window_stop, np.float64) if objects.restricted else None,
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
