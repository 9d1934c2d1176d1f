"""Transforms of the output's element type and units: torchvision.transforms.v2.Normalize and ToDtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np

from stoker.errors import ConfigError
from stoker.types import DType

from ...description import as_tuple, is_finite
from ..base import Transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["Form", "Normalize", "OutputTransform", "ToDtype"]


@dataclass(frozen=True)
class Form:
    """Element type and units of the output, as a map of RGB in 0..255.

    Attributes:
        dtype: Element type.
        matrix: (3, 4) float64, an affine map of RGB, channel by channel.
    """

    dtype: DType
    matrix: npt.NDArray[np.float64]

    def to_rgb(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """RGB in 0..255 of ``values``, (3,), in the units of this form."""
        return (values - self.matrix[:, 3]) / self.matrix[:, :3].diagonal()

    def from_rgb(self, rgb: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The inverse of :meth:`to_rgb`."""
        return self.matrix[:, :3].diagonal() * rgb + self.matrix[:, 3]


class OutputTransform(Transform):
    """Base of the transforms that change the form of the output, in the same way for all samples."""

    late: ClassVar[bool] = True

    def convert(self, form: Form) -> Form:
        """The form of the output after this transform."""
        raise NotImplementedError


@dataclass(frozen=True)
class Normalize(OutputTransform):
    """Subtract ``mean`` and divide by ``std``, channel by channel.

    Args:
        mean: Three numbers, RGB, or one for all, in torchvision's units: of pixels in 0..1, or in 0..255
            after ``ToDtype(..., scale=False)``. By default ImageNet's.
        std: Three numbers other than zero, likewise.

    Unlike in torchvision, no ToDtype is needed before it: pixels that are still uint8 become float32 in
    0..1 first.
    """

    mean: float | Sequence[float] = (0.485, 0.456, 0.406)
    std: float | Sequence[float] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            value = as_tuple(getattr(self, name), 3)
            good = len(value) == 3 and all(map(is_finite, value))
            self.check(name, good, "three finite numbers, one a channel (RGB), or one for all")
            self.check(name, name == "mean" or all(value), "three numbers other than zero")
            self.set(name, tuple(map(float, value)))

    def convert(self, form: Form) -> Form:
        """See :class:`OutputTransform`; ConfigError for a mean in 0..255 where pixels are in 0..1."""
        if form.dtype == "uint8":
            form = ToDtype("float32").convert(form)
        white = form.from_rgb(np.full(3, 255.0))
        if np.allclose(white, 1) and np.max(self.mean) > 1:
            raise ConfigError(
                f"Normalize: mean must be in units of pixels in 0..1; found {self.mean!r}",
                hint="Divide mean and std by 255, or put ToDtype('float32', scale=False) before Normalize.",
            )
        matrix = form.matrix.copy()
        matrix[:, 3] -= self.mean
        return Form(form.dtype, matrix / np.array(self.std)[:, None])


@dataclass(frozen=True)
class ToDtype(OutputTransform):
    """Convert to another element type.

    Args:
        dtype: uint8, float16, bfloat16 or float32; a name, or the dtype of NumPy or a framework.
        scale: Whether a conversion from uint8 to a float maps 0..255 to 0..1. True by default, unlike in
            torchvision.
    """

    dtype: Any = "float32"
    scale: bool = True

    def __post_init__(self) -> None:
        value = self.dtype
        named = getattr(value, "name", None) or getattr(value, "__name__", None) or value
        name = str(named).removeprefix("torch.")
        self.check("dtype", name in get_args(DType), f"one of {', '.join(get_args(DType))}")
        self.set("dtype", name)
        self.check("scale", isinstance(self.scale, bool), "True or False")

    def convert(self, form: Form) -> Form:
        """See :class:`OutputTransform`; ConfigError on the way back from a float to uint8."""
        if self.dtype == "uint8" and form.dtype != "uint8":
            raise ConfigError(
                f"uint8 output after a conversion to {form.dtype}",
                hint="Leave out Normalize and ToDtype for pixels in 0..255, or ask for a float dtype.",
            )
        scaled = self.scale and form.dtype == "uint8" and self.dtype != "uint8"
        return Form(self.dtype, form.matrix / 255 if scaled else form.matrix)
