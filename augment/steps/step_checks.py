"""Checks of users' own steps. Without them a mistake would show only as wrong pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from stoker.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["check_array", "check_pixels"]


def check_array(step: object, name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    """Raise ConfigError unless the attribute ``name`` of ``step`` is an array of ``dtype`` and ``shape``."""
    value = getattr(step, name)
    if not _is_array(value, dtype, shape):
        raise ConfigError(
            f"{type(step).__name__}: {name} must be {shape} {np.dtype(dtype).name}, one row for each sample; "
            f"found {_form(value)}"
        )


def check_pixels(step: object, found: Any, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """``found``, what a step made of ``pixels``; ConfigError where that is no image like them."""
    if _is_array(found, np.uint8, pixels.shape):
        return found
    method = "apply" if pixels.ndim == 3 else "apply_batch"
    raise ConfigError(
        f"{type(step).__name__}: {method} must return {pixels.shape} uint8, as it gets; found {_form(found)}",
        hint=f"Let {method} clip to 0..255, end with .astype(numpy.uint8), and return the array.",
    )


def _is_array(value: object, dtype: type[np.generic], shape: tuple[int, ...]) -> TypeGuard[npt.NDArray[Any]]:
    return isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == shape


def _form(value: Any) -> str:
    return f"{value.shape} {value.dtype}" if isinstance(value, np.ndarray) else repr(value)
