"""Keras 3: the right steps, the order of each epoch, and a resume inside one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker import ImageLoader
from stoker.augment import Normalize, RandomHorizontalFlip, Resize
from stoker.errors import ConfigError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from stoker.pipeline.adapters.keras import keras_dataset  # noqa: E402 - only where the package is installed
from stoker.pipeline.adapters.tensorflow import LoaderState  # noqa: E402 - only where it is installed

PROGRAM = Path(__file__).parent / "programs" / "keras_backend.py"
needs_tensorflow_backend = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="Keras was configured with another backend"
)


def load(folder: Path, **options: Any) -> ImageLoader:
    given = {"batch_size": 16, "shuffle": True, "output": "tensorflow", "layout": "NHWC", "num_threads": 2}
    transforms = [Resize((8, 8)), RandomHorizontalFlip(), Normalize()]
    return ImageLoader(folder, transforms=transforms, **{**given, **options})


def network(built: bool = False) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Flatten(), keras.layers.Dense(61)]
    model = keras.Sequential([keras.Input((8, 8, 3)), *layers] if built else layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss)
    return model


class Record(keras.callbacks.Callback):  # type: ignore[misc]  # keras is optional
    """What the loader says of itself after each step; stops training after ``stop`` of them."""

    def __init__(self, loader: ImageLoader, stop: int = -1) -> None:
        super().__init__()
        self.loader = loader
        self.stop = stop
        self.places: list[tuple[int, int]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        state = self.loader.state_dict()
        self.places.append((state["epoch"], state["position"]))
        self.model.stop_training = len(self.places) == self.stop


@needs_tensorflow_backend
@pytest.mark.parametrize("built", [True, False])
def test_fit_trains_each_epoch_once_and_reads_no_batch_ahead(thumbnails: Path, built: bool) -> None:
    with load(thumbnails) as loader:
        record = Record(loader)
        network(built).fit(keras_dataset(loader), epochs=3, verbose=0, callbacks=[record])
    assert record.places == [(epoch + (place == 0), place) for epoch in range(3) for place in (16, 32, 48, 0)]


@needs_tensorflow_backend
def test_a_mask_makes_padding_weigh_nothing(thumbnails: Path) -> None:
    weights = []
    for last_batch, columns in (("partial", ("image", "label")), ("pad", ("image", "label", "mask"))):
        model = network()
        with load(thumbnails, last_batch=last_batch, columns=columns) as loader:
            model.fit(keras_dataset(loader), verbose=0)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@needs_tensorflow_backend
def test_a_checkpoint_goes_on_inside_an_epoch(thumbnails: Path, tmp_path: Path) -> None:
    undisturbed = network()
    with load(thumbnails) as loader:
        undisturbed.fit(keras_dataset(loader), epochs=3, verbose=0)
    model = network(built=True)
    with load(thumbnails) as loader:
        model.fit(keras_dataset(loader), epochs=3, verbose=0, callbacks=[Record(loader, stop=6)])
        path = tf.train.Checkpoint(model=model, loader=LoaderState(loader)).save(tmp_path / "checkpoint")
    model = network(built=True)
    with load(thumbnails) as loader:
        tf.train.Checkpoint(model=model, loader=LoaderState(loader)).restore(path).assert_consumed()
        record = Record(loader)
        with pytest.warns(UserWarning, match="ran out of data"):
            model.fit(
                keras_dataset(loader), initial_epoch=1, epochs=3, verbose=0, shuffle=False, callbacks=[record]
            )
    assert record.places == [(1, 48), (2, 0), (2, 16), (2, 32), (2, 48), (3, 0)]
    for found, expected in zip(model.get_weights(), undisturbed.get_weights(), strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
def test_every_backend_receives_the_batches_of_the_loader(thumbnails: Path, output: str) -> None:
    pytest.importorskip(output)
    with load(thumbnails, output=output) as loader, load(thumbnails, output="numpy") as plain:
        data = keras_dataset(loader)
        assert data.num_batches == 4
        read = {
            "numpy": data.get_numpy_iterator,
            "torch": data.get_torch_dataloader,
            "jax": data.get_jax_iterator,
        }[output]
        next(iter(read()))  # a look at the first batch, as Keras takes it
        for _ in range(2):
            for (images, labels), expected in zip(read(), plain, strict=True):
                assert np.array_equal(images, expected.image)
                assert np.array_equal(labels, expected.label)


def test_more_columns_than_keras_takes_are_refused(thumbnails: Path) -> None:
    columns = ("image", "label", "row", "key")
    with (
        load(thumbnails, columns=columns) as loader,
        pytest.raises(ConfigError, match="image, label, row, key"),
    ):
        keras_dataset(loader)


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_look_before_training_uses_up_no_epoch(thumbnails: Path, backend: str) -> None:
    pytest.importorskip(backend)
    run = subprocess.run(
        [sys.executable, PROGRAM, thumbnails],
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["backend"] == backend
    assert found["places"] == [[0, 16], [0, 32], [0, 48], [1, 0], [1, 16], [1, 32], [1, 48], [2, 0]]
