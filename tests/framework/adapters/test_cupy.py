"""CuPy: arrays on the GPU, where there is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.loaders import image_arguments

from stoker import ImageLoader
from stoker.augment import Normalize, Resize
from stoker.pipeline.engines.registry import visible_gpus

if not visible_gpus():
    pytest.skip("CuPy's arrays live on an NVIDIA GPU, and there is none", allow_module_level=True)
cupy = pytest.importorskip("cupy")


@pytest.mark.parametrize("engine", ["native", "dali"])
def test_arrays_are_on_the_gpu(thumbnails: Path, engine: str) -> None:
    options = {"batch_size": 16, "transforms": [Resize((16, 16)), Normalize()]}
    with (
        ImageLoader(thumbnails, **image_arguments(engine=engine, output="cupy", **options)) as loader,
        ImageLoader(thumbnails, **image_arguments(engine="native", **options)) as plain,
    ):
        for (images, labels), expected in zip(loader, plain, strict=True):
            assert isinstance(images, cupy.ndarray)
            assert images.shape == expected.image.shape
            assert np.array_equal(labels.get(), expected.label)
            # nvJPEG rounds otherwise than libjpeg-turbo: a few levels of 255, in units of the normalised.
            assert np.abs(images.get() - expected.image).mean() < (0 if engine == "native" else 0.05) + 1e-6
