"""Ranges of NVTX for the work of native threads; loaders turn them on if the program has imported nvtx."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stoker import _native

# NVTX is a header. These libraries, from CUDA and the package nvidia-nvtx, have its functions for programs
# that cannot include it.
_LIBRARIES = ("libnvtx3interop.so.1", "libnvToolsExt.so.1")
_FOLDERS = ("cu13/lib", "nvtx/lib")  # in the package nvidia


def show_native_ranges() -> None:
    """Show reading, decoding and augmentation of native threads as ranges of NVTX, if nvtx is imported.

    Without a library of NVTX's functions nothing happens.
    """
    if "nvtx" in sys.modules:
        _set_functions()


@cache
def _set_functions() -> None:
    library = _library()
    if library is not None:
        functions = (library.nvtxRangePushA, library.nvtxRangePop)
        _native.set_range_functions(
            *(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
        )


def _library() -> Any:
    """Return the first library that loads; None if none does."""
    package = find_spec("nvidia")
    locations = (package and package.submodule_search_locations) or ()
    folders = [Path(location) / folder for location in locations for folder in _FOLDERS]
    for name in _LIBRARIES:
        for file in (name, *(str(folder / name) for folder in folders)):
            try:
                return ctypes.CDLL(file)
            except OSError:  # noqa: PERF203 - four tries at most
                continue
    return None
