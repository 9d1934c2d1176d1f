"""Base of the transforms of images: a frozen description that can decide its parameters for a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..description import Description

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stoker.types import Size

    from ..state.transform_state import TransformState

__all__ = ["Transform"]


@dataclass(frozen=True)
class Transform(Description):
    """Base of all transforms of images.

    :meth:`params` decides what it does to a batch, from random numbers that it is given; an engine executes
    what was decided.

    Attributes:
        draws: Number of random numbers that it needs for each sample. Where that depends on the arguments,
            the instance has it.
        late: Whether it belongs to the end of the list (RandomErasing, Normalize, ToDtype).
        warps: Whether its geometry is other than along the axes, for which all images must have one
            size where it stands.
    """

    draws: ClassVar[int] = 0
    late: ClassVar[bool] = False
    warps: ClassVar[bool] = False

    @property
    def uses_boxes(self) -> bool:
        """Whether it decides by where the objects lie."""
        return False

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        """Compose this transform onto ``state``; ``u`` is (N, draws) float64, uniform in [0, 1)."""
        raise NotImplementedError

    def output_size(self, size: Size | None) -> Size | None:
        """Size of the image after this transform where it is the same for all samples, else None."""
        return size
