"""Keras 3: the right steps, the order of each epoch, and a resume inside one."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import WORDS
from helpers.loaders import image_arguments
from helpers.processes import wait_until
from helpers.warm_python import WarmPython

import stoker
from stoker import ImageLoader
from stoker.augment import Normalize, RandomHorizontalFlip, Resize
from stoker.errors import ConfigError, LoaderClosedError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from helpers.keras_states import StateRecord  # noqa: E402 - only where Keras is installed

from stoker.pipeline.adapters.tensorflow import LoaderState  # noqa: E402 - likewise

TESTS = Path(__file__).parents[2]
PROGRAM = TESTS / "framework" / "programs" / "keras_backend.py"
needs_tensorflow_backend = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="Keras was configured with another backend"
)


def load(folder: Path, **options: Any) -> ImageLoader:
    arguments = {"batch_size": 16, "shuffle": True, "output": "keras", "layout": "NHWC", "num_threads": 2}
    transforms = [Resize((8, 8)), RandomHorizontalFlip(), Normalize()]
    return ImageLoader(folder, **image_arguments(**{"transforms": transforms, **arguments, **options}))


def network(built: bool = False) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Flatten(), keras.layers.Dense(61)]
    model = keras.Sequential([keras.Input((8, 8, 3)), *layers] if built else layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss)
    return model


def states_of(epochs: int) -> list[tuple[int, int]]:
    """The states after the steps of whole epochs: the last step of an epoch leads to the next epoch."""
    return [
        state for epoch in range(epochs) for state in ((epoch, 16), (epoch, 32), (epoch, 48), (epoch + 1, 0))
    ]


@needs_tensorflow_backend
@pytest.mark.parametrize("built", [True, False])
def test_fit_trains_each_epoch_once_and_reads_no_batch_ahead(thumbnails: Path, built: bool) -> None:
    with load(thumbnails) as loader:
        record = StateRecord(loader)
        network(built).fit(loader, epochs=3, verbose=0, callbacks=[record])
    assert record.states == states_of(3)


@needs_tensorflow_backend
def test_the_mask_gives_padding_no_weight(thumbnails: Path) -> None:
    weights = []
    for last_batch, columns in (("partial", ("image", "label")), ("pad", ("image", "label", "mask"))):
        model = network()
        with load(thumbnails, last_batch=last_batch, columns=columns) as loader:
            model.fit(loader, verbose=0)
        weights.append(model.get_weights())
    for found, expected in zip(*weights, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@needs_tensorflow_backend
def test_a_checkpoint_goes_on_inside_an_epoch(thumbnails: Path, tmp_path: Path) -> None:
    undisturbed = network()
    with load(thumbnails) as loader:
        undisturbed.fit(loader, epochs=3, verbose=0)
    model = network(built=True)
    with load(thumbnails) as loader:
        model.fit(loader, epochs=3, verbose=0, callbacks=[StateRecord(loader, stop=6)])
        path = tf.train.Checkpoint(model=model, loader=LoaderState(loader)).save(tmp_path / "checkpoint")
    model = network(built=True)
    with load(thumbnails) as loader:
        tf.train.Checkpoint(model=model, loader=LoaderState(loader)).restore(path).assert_consumed()
        record = StateRecord(loader)
        with pytest.warns(UserWarning, match="ran out of data"):
            model.fit(loader, initial_epoch=1, epochs=3, verbose=0, shuffle=False, callbacks=[record])
    assert record.states == [(1, 48), (2, 0), (2, 16), (2, 32), (2, 48), (3, 0)]
    for found, expected in zip(model.get_weights(), undisturbed.get_weights(), strict=True):
        assert np.array_equal(found, expected)


@needs_tensorflow_backend
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize(("batch_size", "steps"), [(8, 4), (32, 1)])
def test_a_resume_with_another_batch_size_trains_the_rest_of_the_epoch(
    thumbnails: Path, batch_size: int, steps: int
) -> None:
    with load(thumbnails) as loader:
        batches = iter(loader)
        next(batches)
        next(batches)
        state = loader.state_dict()
    with load(thumbnails, batch_size=batch_size) as loader:
        loader.load_state_dict(state)
        record = StateRecord(loader)
        network(built=True).fit(loader, verbose=0, callbacks=[record])
        assert len(record.states) == steps
        assert loader.state_dict()["epoch"] == 1
        assert loader.stats().samples == 29


@needs_tensorflow_backend
def test_a_third_column_is_the_weights_of_samples(pack_images: Any, thumbnails: Path) -> None:
    dataset = stoker.open(thumbnails)
    weight = (np.arange(16) == 3).astype(np.float32)
    weighed = pack_images([dataset.read(i) for i in range(16)], weight=weight)
    model, transforms = network(), [Resize((8, 8)), Normalize()]
    with load(weighed, columns=("image", "label", "weight"), transforms=transforms) as loader:
        loss = model.evaluate(loader, verbose=0)
    with load(stoker.open(weighed).select([3]), transforms=transforms) as loader:
        assert loss == pytest.approx(model.evaluate(loader, verbose=0), abs=1e-6)


def test_more_columns_than_keras_takes_are_refused(thumbnails: Path) -> None:
    columns = ("image", "label", "row", "key")
    with pytest.raises(ConfigError, match="image, label, row, key"):
        load(thumbnails, columns=columns)


def test_epochs_that_differ_in_length_are_refused(thumbnails: Path) -> None:
    with pytest.raises(ConfigError, match="this loader's epochs differ"):
        load(thumbnails, sizes={0: 8, 1: 16}, pixels_per_batch=1024, batch_size=None)


@needs_tensorflow_backend
def test_a_loader_for_keras_is_an_image_loader_with_the_batches_of_numpy(thumbnails: Path) -> None:
    with load(thumbnails) as loader, load(thumbnails, output="numpy") as plain:
        assert isinstance(loader, ImageLoader)
        assert repr(loader) == repr(plain)
        for _ in range(2):
            for (images, labels), expected in zip(loader, plain, strict=True):
                assert isinstance(images, tf.Tensor)
                np.testing.assert_array_equal(images, expected.image)
                np.testing.assert_array_equal(labels, expected.label)
        assert loader.state_dict() == plain.state_dict()
    with pytest.raises(LoaderClosedError, match="closed"):
        iter(loader)


@needs_tensorflow_backend
def test_peeking_at_data_keeps_no_loader_alive(thumbnails: Path) -> None:
    loader = load(thumbnails)
    next(loader.get_numpy_iterator())  # type: ignore[attr-defined]  # of Keras' data
    reference = weakref.ref(loader)
    del loader
    wait_until(lambda: reference() is None)  # the loader's thread can hold it for a moment


@needs_tensorflow_backend
def test_a_trained_model_evaluates_and_predicts(thumbnails: Path) -> None:
    model = network()
    same = {"shuffle": False, "transforms": [Resize((8, 8)), Normalize()]}
    with load(thumbnails, **same) as loader, load(thumbnails, columns=("image",), **same) as images:
        model.fit(loader, epochs=2, verbose=0, validation_data=loader)
        assert loader.state_dict()["epoch"] == 4
        assert model.evaluate(loader, verbose=0) == model.evaluate(loader, verbose=0)
        predicted = model.predict(images, verbose=0)
        expected = np.concatenate([np.asarray(model(batch.image)) for batch in images])
    assert len(expected) == 61
    np.testing.assert_allclose(predicted, expected, atol=1e-6)


@needs_tensorflow_backend
def test_a_loader_of_text_trains_a_language_model(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join("one two three four five"[: 4 + i % 20] for i in range(60)))
    stoker.convert_text(tmp_path / "text.txt", tmp_path / "shards", tokenizer=WORDS)
    model = keras.Sequential([keras.layers.Embedding(300, 8), keras.layers.Dense(300)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-100))
    columns = ("input_ids", "labels")
    with stoker.TextLoader(tmp_path / "shards", batch_size=4, columns=columns, output="keras") as loader:
        history = model.fit(loader, epochs=2, verbose=0).history
        assert loader.stats().batches == 2 * len(loader)
    assert np.isfinite(history["loss"]).all()


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_train_evaluate_and_predict(
    backend: str, thumbnails: Path, warm_torch: WarmPython
) -> None:
    pytest.importorskip(backend)
    environment = {"KERAS_BACKEND": backend}
    printed = warm_torch.output(PROGRAM, thumbnails, environment=environment, paths=[TESTS])
    found = json.loads(printed.splitlines()[-1])
    assert found["backend"] == backend
    # One training runs undisturbed; another stops after five steps, and goes on from there.
    assert found["states"] == [*map(list, states_of(2))] * 2
    # Passes over the validation set: two epochs; two until the stop; one after it; two evaluations.
    assert found["passes"] == 2 + 2 + 1 + 2
    assert found["evaluated"][0] == found["evaluated"][1]
    assert found["difference"] < 1e-5
