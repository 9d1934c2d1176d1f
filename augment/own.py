"""What transforms and steps of one's own must keep to, checked before it shows in pictures alone."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.augment.steps import Step
    from stoker.augment.transforms.base import Size, Transform

__all__ = ["check_array", "check_class", "check_pixels", "check_size"]


def check_class(transform: Transform, base: type[Transform]) -> None:
    """ConfigError where the class of ``transform`` hides its arguments, or decides no more than ``base``."""
    kind = type(transform)
    hidden = vars(transform).keys() - {field.name for field in fields(transform)}
    if hidden and "__dataclass_params__" not in vars(kind):
        raise ConfigError(
            f"{kind.__name__} is no dataclass, so that checkpoints and recipes do not know its {min(hidden)}",
            hint=f"Put @dataclass(frozen=True) above class {kind.__name__}, and make its arguments fields.",
        )
    if kind.params is base.params:
        raise ConfigError(
            f"{kind.__name__} has no method params(self, frame, u), which decides what it does to a batch",
            hint="Rename its method decide to params." if hasattr(kind, "decide") else "Define it.",
        )


def check_size(transform: Transform, found: npt.NDArray[np.int64], size: Size | None) -> None:
    """ConfigError where images have sizes, (2, N), other than ``transform`` says; None for any."""
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


def check_array(step: Step, name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    """ConfigError where the array ``name`` of ``step`` is none of ``dtype`` and ``shape``."""
    value = getattr(step, name)
    if not _is_array(value, dtype, shape):
        raise ConfigError(
            f"{type(step).__name__}: {name} must be {shape} {np.dtype(dtype).name}, one row a sample; "
            f"found {_form(value)}"
        )


def check_pixels(step: Step, found: Any, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """What a step made of ``pixels``; ConfigError where that is no image like them."""
    if _is_array(found, np.uint8, pixels.shape):
        return found  # type: ignore[no-any-return]  # as just checked
    raise ConfigError(
        f"{type(step).__name__}: apply must return {pixels.shape} uint8 as it got; found {_form(found)}",
        hint="Let apply clip to 0..255, end with .astype(numpy.uint8), and return the array.",
    )


def _is_array(value: Any, dtype: type[np.generic], shape: tuple[int, ...]) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == shape


def _form(value: Any) -> str:
    return f"{value.shape} {value.dtype}" if isinstance(value, np.ndarray) else repr(value)
