"""Arrays of JAX, TensorFlow and PyTorch: properties that all of them have."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments

from stoker import ImageLoader
from stoker.augment import Normalize, Resize


@pytest.fixture(params=["jax", "tensorflow", "torch"])
def output(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


def load(folder: Path, output: str, **options: Any) -> ImageLoader:
    arguments = {"batch_size": 16, "num_threads": 2, "transforms": [Resize((16, 16)), Normalize()], **options}
    return ImageLoader(folder, **image_arguments(output=output, **arguments))


class Exported:
    """A tensor of TensorFlow for ``np.from_dlpack``."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        return import_module("tensorflow").experimental.dlpack.to_dlpack(self.tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def address(images: Any) -> int:
    for method in ("data_ptr", "unsafe_buffer_pointer"):
        if hasattr(images, method):
            return int(getattr(images, method)())
    return np.from_dlpack(Exported(images)).ctypes.data


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC4"])
def test_images_share_the_memory_of_the_engine(
    thumbnails: Path, engine: str, output: str, dtype: Any, layout: Any, addresses: list[int]
) -> None:
    transforms = [Resize((16, 16))]
    loader = load(thumbnails, output, engine=engine, dtype=dtype, layout=layout, transforms=transforms)
    images, labels = next(iter(loader))
    assert address(images) == addresses[0]
    assert dtype in str(images.dtype)
    assert tuple(images.shape) == ((16, 3, 16, 16) if layout == "NCHW" else (16, 16, 16, 4))
    assert ("int32" if output == "jax" else "int64") in str(labels.dtype)
    assert np.asarray(labels).tolist() == list(range(16))
    loader.close()


class DeviceImages:
    """Images of an engine in the memory of a device, by DLPack; NumPy's memory stands in for a GPU's.

    Attributes:
        memory: Float32, (1, 2, 2, 3).
    """

    def __init__(self) -> None:
        room = np.empty(256, np.float32)
        first = -room.ctypes.data % 64 // 4  # engines align all memory
        self.memory = room[first : first + 12].reshape(1, 2, 2, 3)
        self.memory[:] = np.arange(12).reshape(self.memory.shape)

    def __dlpack__(self, **_: Any) -> Any:
        return self.memory.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory.__dlpack_device__()


def as_numpy(array: Any) -> Any:
    """The array as float32. PyTorch hands NumPy no bfloat16."""
    return np.asarray(array.float() if hasattr(array, "float") else array, np.float32)


def test_values_are_those_of_numpy_for_as_long_as_they_are_held(
    thumbnails: Path, engine: str, output: str
) -> None:
    options = {"engine": engine, "dtype": "bfloat16", "columns": ("image", "key", "row")}
    with load(thumbnails, output, **options) as ours, load(thumbnails, "numpy", **options) as plain:
        held = list(ours)
        expected = [batch.image.astype(np.float32) for batch in plain]
    assert len(held) == 4
    for batch, images in zip(held, expected, strict=True):
        assert "bfloat16" in str(batch.image.dtype)
        assert np.array_equal(as_numpy(batch.image), images)
        keys = batch.key if output != "tensorflow" else [key.decode() for key in batch.key.numpy()]
        assert keys == [f"k{row}" for row in np.asarray(batch.row).tolist()]


@pytest.mark.parametrize("output", ["jax", "tensorflow"], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_memory_of_a_device_is_copied(output: str, dtype: str) -> None:
    """DALI uses the memory again for a later batch."""
    source = DeviceImages()
    images = import_module(f"stoker.pipeline.adapters.{output}").Adapter(None).images(source, dtype)
    expected = source.memory.copy()
    source.memory += 1
    assert as_numpy(images).tolist() == expected.tolist()


@pytest.mark.filterwarnings("ignore:a bad sample was")
@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_bad_samples_are_skipped_or_replaced(
    pack_images: Any, make_jpeg: Any, output: str, on_error: Any
) -> None:
    headers = {"codec": np.ones(3), "height": np.full(3, 12), "width": np.full(3, 16)}
    folder = pack_images([make_jpeg(0), b"bad", make_jpeg(2)], **headers)
    with load(folder, output, on_error=on_error, columns=("image", "row", "key")) as loader:
        (batch,) = loader
    assert np.asarray(batch.row).tolist() == ([0, 2] if on_error == "skip" else [0, 2, 2])
    assert batch.image.shape == (len(batch.row), 3, 16, 16)
