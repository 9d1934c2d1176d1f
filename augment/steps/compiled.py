"""The step that calls a user's compiled function, which needs no Python."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .base import Step, form

Pixels = npt.NDArray[np.uint8]

_BYTES, _DOUBLES = ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_double)
_FUNCTION = ctypes.CFUNCTYPE(None, _BYTES, ctypes.c_int64, ctypes.c_int64, _DOUBLES)
_OF_CTYPES: Any = _FUNCTION.__mro__[1]
"""The base of all functions of ctypes; its own name is private."""


@dataclass(frozen=True)
class Compiled(Step):
    """A call of a compiled function that changes the image.

    The function is ``void f(uint8_t* rgb, int64_t height, int64_t width, const double* values)``. ``rgb`` is
    the image, (height, width, 3) uint8, which the function changes in place. ``values`` are the numbers of
    the sample. The native engine calls the function on its threads, without the interpreter's lock,
    anywhere in the list. The function must not write beyond the image and must not raise. With numba::

        @numba.cfunc("void(CPointer(uint8), int64, int64, CPointer(float64))")
        def darken(rgb, height, width, values):
            for k in range(3 * height * width):
                rgb[k] = int(rgb[k] * values[0])

        @dataclass(frozen=True)
        class RandomDarken(Transform):
            draws: ClassVar[int] = 1

            def params(self, state, u):
                state.add_steps(Compiled(np.ones(len(u), bool), u, darken))

    Attributes:
        values: (N, K) float64, K from 0.
        function: What numba's ``cfunc`` makes, a function of ctypes, or the address as an integer. If it is
            an integer, the caller must keep the function alive as long as the loader.
    """

    operation: ClassVar[str] = "compiled"

    values: npt.NDArray[np.float64]
    function: Any

    @property
    def address(self) -> int:
        """The address of the function."""
        function = self.function
        if isinstance(function, _OF_CTYPES):
            return ctypes.cast(function, ctypes.c_void_p).value or 0
        return int(getattr(function, "address", function))

    def check(self, n: int) -> None:
        """See :class:`Step`."""
        super().check(n)
        values = self.values
        good = isinstance(values, np.ndarray) and values.dtype == np.float64
        if not (good and values.ndim == 2 and len(values) == n):
            rule = f"({n}, K) float64, one row for each sample"
            raise ConfigError(f"Compiled: values must be {rule}; found {form(values)}")
        if not _is_function(self.function):
            raise ConfigError(
                f"Compiled: function must be a compiled function; found {self.function!r}",
                hint="Give what numba.cfunc makes, a function of ctypes, or an address. Use Step for Python.",
            )

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        rgb, values = np.array(pixels, order="C"), np.ascontiguousarray(self.values[i])
        height, width = pixels.shape[:2]
        call = _FUNCTION(self.address)
        call(rgb.ctypes.data_as(_BYTES), height, width, values.ctypes.data_as(_DOUBLES))
        return rgb


def _is_function(value: Any) -> bool:
    address = getattr(value, "address", value)
    is_address = isinstance(address, int) and not isinstance(address, bool) and address > 0
    return is_address or isinstance(value, _OF_CTYPES)
