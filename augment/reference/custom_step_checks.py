"""What steps of one's own must keep to, checked before it shows in pictures alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..steps import Step

__all__ = ["check_array", "check_pixels"]


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
