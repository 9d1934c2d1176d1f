"""Base of the transforms of images: a frozen description that can decide its parameters for a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker.types import Size

from ..description import Description, as_pair
from ..state import TransformState


@dataclass(frozen=True)
class Transform(Description):
    """Base of all transforms of images: a frozen dataclass whose fields are the arguments.

    :meth:`params` decides what the transform does to a batch of N images, and an engine executes it. The
    method reads no pixels, and its random numbers are given. This is a whole transform::

        @dataclass(frozen=True)
        class RandomSolarize(Transform):
            threshold: int
            p: float = 0.5

            draws: ClassVar[int] = 1

            def __post_init__(self) -> None:
                self.set_whole("threshold", 0, 256)
                self.check_probability()

            def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
                levels = np.full(len(u), self.threshold, np.int16)
                state.add_steps(Solarize(u[:, 0] < self.p, levels))

    :class:`..description.Description` has the checks of arguments. The state has a verb for each thing that
    can happen to images, where arrays over axes are (2, N), the vertical axis first:

    - ``size`` is the height and width so far. ``crop(origin, size)``, ``resize(size, interpolation)``,
      ``pad(mode, before, after)``, ``mirror(where, axis)`` and ``distort(matrix)`` change the geometry;
      boxes, keypoints and masks follow by themselves. ``use_fill(color)`` chooses the colour of padding.
    - ``color.affine(matrix)``, (3, 4), ``color.linear(matrix, grey_share)``, (3, 3), and
      ``color.offset(constant)``, (3,), change colours by a map of RGB in 0..255. Each takes one map for all
      images, or one for each with a leading axis N; images that stay as they are get the identity. The maps
      of all transforms are composed, and clipped once at the end. ``grey_share[i]`` times image i's mean grey
      is added to each channel, which is how contrast is made. :mod:`stoker.augment.color_map` has
      matrices of brightness, saturation, grey, hue and permutation.
    - ``add_steps(step)`` adds a pixel operation of :mod:`stoker.augment.steps`, for what no map expresses.
    - ``erase(origin, size)`` overwrites a box at the end.
    - ``take(rows)`` and ``put(rows, taken)`` apply other transforms to some of the images.

    Every engine executes the changes of geometry and colours; DALI lacks some modes of padding. The
    native and the reference engine execute all steps of :mod:`stoker.augment.steps`; DALI lacks ``Table``,
    ``AddNoise``, ``Displace`` and ``Compiled``.

    Attributes:
        draws: Number of random numbers that it needs for each sample. If that depends on the arguments,
            ``__post_init__`` sets it: ``self.set("draws", ...)``.
        late: Whether it belongs to the end of the list (RandomErasing, Normalize, ToDtype).
        warps: Whether it calls ``distort``. All images must then have one size before it, or it has a
            ``canvas``.
        sized: Whether it leaves all images in the size of its field ``size``, a pair after ``set_size``.
    """

    draws: ClassVar[int] = 0
    late: ClassVar[bool] = False
    warps: ClassVar[bool] = False
    sized: ClassVar[bool] = False

    @property
    def uses_boxes(self) -> bool:
        """Whether it decides by where the objects lie."""
        return False

    @property
    def canvas(self) -> Size | None:
        """Height and width to which it resizes all images before it warps them; None if it does not."""
        return None

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """Compose this transform onto ``state``; ``u`` is (N, draws) float64, uniform in [0, 1)."""
        raise NotImplementedError

    def output_size(self, size: Size | None) -> Size | None:
        """Return the size after this transform if it is the same for all samples, else None."""
        return as_pair(vars(self)["size"]) if self.sized else size

    def identity(self) -> dict[str, Any]:
        """What states of loaders hold of it: what decides its results, and no more."""
        return self.to_dict()

    def with_size(self, size: Size) -> Transform | None:
        """Return the same transform that leaves images of ``size``; None if it gives images no size."""
        changed: Any = {"size": size}
        return replace(self, **changed) if self.sized else None
