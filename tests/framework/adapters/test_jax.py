"""JAX: arrays over the engine's memory, and a training loop."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stoker import ImageLoader
from stoker.augment import Normalize, Resize
from stoker.errors import ConfigError

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402 - only where the package is installed

from stoker.pipeline.adapters.jax import Adapter  # noqa: E402 - likewise


def load(folder: Path, engine: str = "native", **options: Any) -> ImageLoader:
    arguments = {"batch_size": 16, "output": "jax", "num_threads": 2, "transforms": [Resize((16, 16))]}
    return ImageLoader(folder, engine=engine, **(arguments | options))


def test_the_second_process_of_a_job_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """``jax.devices`` lists the GPUs of all processes, those of the first one first.

    No array can show its device here, as there is no GPU: the test reads the device of the adapter.
    """
    local = [SimpleNamespace(local_hardware_id=number) for number in (1, 0)]
    monkeypatch.setattr(jax, "local_devices", lambda backend: local if backend == "cuda" else [])
    monkeypatch.setattr(jax, "devices", lambda *_: pytest.fail("the GPUs of all processes were asked for"))
    assert Adapter("cuda:0")._device is local[1]
    assert Adapter("cuda:1")._device is local[0]
    with pytest.raises(ConfigError, match="'cuda:2' was asked for, and JAX uses cuda:0, cuda:1"):
        Adapter("cuda:2")


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
def test_arrays_share_the_memory_of_the_engine(
    thumbnails: Path, engine: str, dtype: Any, addresses: list[int]
) -> None:
    loader = load(thumbnails, engine, dtype=dtype)
    images, labels = next(iter(loader))
    assert isinstance(images, jax.Array)
    assert images.unsafe_buffer_pointer() == addresses[0]
    assert (images.dtype, images.shape) == (jnp.dtype(dtype), (16, 3, 16, 16))
    assert (labels.dtype, labels.tolist()) == (jnp.int32, list(range(16)))
    loader.close()


def test_a_training_loop_learns(thumbnails: Path) -> None:
    @jax.jit
    def step(weights: Any, images: Any, labels: Any) -> Any:
        def loss(weights: Any) -> Any:
            logits = images.reshape(len(images), -1) @ weights
            return -jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels // 9].mean()

        value, gradient = jax.value_and_grad(loss)(weights)
        return value, weights - 0.01 * gradient

    weights, losses = jnp.zeros((3 * 16 * 16, 7)), []
    transforms = [Resize((16, 16)), Normalize()]
    with load(thumbnails, shuffle=True, transforms=transforms, last_batch="drop") as loader:
        for _ in range(15):
            for images, labels in loader:
                value, weights = step(weights, images, labels)
                losses.append(float(value))
    assert np.mean(losses[-6:]) < 0.7 * np.mean(losses[:3])
