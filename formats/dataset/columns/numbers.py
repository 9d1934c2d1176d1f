"""Arrow arrays of NumPy's numbers, without pandas: ``pa.array`` would import it where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def number_array(values: npt.NDArray[Any]) -> pa.Array:
    """Return (N,) integers or floats as an Arrow array, without a copy if they are contiguous."""
    data = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(data.dtype), len(data), [None, pa.py_buffer(data)])
