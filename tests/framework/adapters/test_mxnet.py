"""MXNet: NDArrays over the engine's memory, where it is installed."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker import ImageLoader
from stoker.augment import Resize
from stoker.errors import ConfigError

if int(np.__version__.partition(".")[0]) >= 2:
    pytest.skip("MXNet 1.9.1, its last release, imports with no NumPy from 2.0", allow_module_level=True)
np.bool = bool  # type: ignore[attr-defined,misc]  # removed in NumPy 1.24, and MXNet still asks for it
mxnet = pytest.importorskip("mxnet")


def load(folder: Path, **options: Any) -> ImageLoader:
    return ImageLoader(folder, batch_size=16, num_threads=2, transforms=[Resize((16, 16))], **options)


def pointer(array: Any) -> int:
    address = ctypes.c_void_p()
    mxnet.base.check_call(mxnet.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(address)))
    assert address.value is not None
    return address.value


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
def test_arrays_share_the_memory_of_the_engine(thumbnails: Path, dtype: Any, addresses: list[int]) -> None:
    with load(thumbnails, output="mxnet", dtype=dtype) as loader, load(thumbnails, dtype=dtype) as plain:
        for batch, expected in zip(loader, plain, strict=True):
            assert pointer(batch.image) in addresses
            assert np.array_equal(batch.image.asnumpy(), expected.image)
            assert (batch.label.dtype, batch.label.asnumpy().tolist()) == (np.int64, expected.label.tolist())


def test_bfloat16_is_refused(thumbnails: Path) -> None:
    with (
        load(thumbnails, output="mxnet", dtype="bfloat16") as loader,
        pytest.raises(ConfigError, match="float16"),
    ):
        next(iter(loader))
