"""TensorFlow: tensors over the engine's memory, the tf.data view, and a training loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments

from stoker import ImageLoader
from stoker.augment import Resize
from stoker.errors import CheckpointError

tf = pytest.importorskip("tensorflow")

from stoker.pipeline.adapters.tensorflow import Adapter, LoaderState, tf_dataset  # noqa: E402 - only where installed


def load(folder: Path, engine: str = "native", **options: Any) -> ImageLoader:
    arguments = {"batch_size": 16, "output": "tensorflow", "num_threads": 2, **options}
    arguments.setdefault("transforms", [Resize((16, 16))])
    return ImageLoader(folder, **image_arguments(engine=engine, **arguments))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_memory_that_is_not_aligned_is_copied(dtype: str) -> None:
    """Kernels of TensorFlow crash the process on such memory."""
    buffer = np.zeros(64, np.float32 if dtype == "float32" else np.uint16)
    for first in range(16):
        images = Adapter(None).images(buffer[first : first + 12].reshape(1, 2, 2, 3), dtype)
        assert not (images[:, :1] + images[:, 1:]).numpy().any()


def test_the_tf_data_view_has_the_batches_of_the_loader(thumbnails: Path) -> None:
    options = {"columns": ("image", "label", "key", "mask", "crc"), "last_batch": "pad", "dtype": "bfloat16"}
    with load(thumbnails, **options) as loader, load(thumbnails, **options) as other:
        view = tf_dataset(loader)
        assert isinstance(view, tf.data.Dataset)
        assert view.cardinality().numpy() == 4
        image, label, key, mask, crc = view.element_spec
        assert (image.dtype, tuple(image.shape)) == (tf.bfloat16, (None, 3, 16, 16))
        assert (label.dtype, key.dtype, mask.dtype, crc.dtype) == (tf.int64, tf.string, tf.bool, tf.uint32)
        for _ in range(2):
            for batch, expected in zip(view, other, strict=True):
                for found, column in zip(batch, expected, strict=True):
                    assert np.array_equal(found.numpy(), column.numpy())


def test_the_tf_data_view_takes_the_form_that_a_function_returns(thumbnails: Path) -> None:
    def halve(images: Any) -> Any:
        return tf.cast(images[:, :, ::2, ::2], tf.float16)

    with load(thumbnails, transforms=[Resize((16, 16)), halve]) as loader:
        image, _ = next(iter(tf_dataset(loader)))
        assert (image.dtype, tuple(image.shape)) == (tf.float16, (16, 3, 8, 8))


def test_peeking_into_the_tf_data_view_uses_up_no_epoch(thumbnails: Path) -> None:
    with load(thumbnails, shuffle=True) as loader, load(thumbnails, shuffle=True) as other:
        view = tf_dataset(loader)
        for _ in view.take(1):
            pass
        for (_, labels), (_, expected) in zip(view, other, strict=True):
            assert np.array_equal(labels, expected)
        assert loader.state_dict()["epoch"] == 1


def test_the_tf_data_view_reads_no_batch_ahead_and_resumes_anywhere(thumbnails: Path, tmp_path: Path) -> None:
    with load(thumbnails, shuffle=True) as loader:
        batches = iter(tf_dataset(loader))
        next(batches), next(batches)
        assert loader.state_dict()["position"] == 32
        path = tf.train.Checkpoint(loader=LoaderState(loader)).save(tmp_path / "checkpoint")
        expected = [labels.numpy().tolist() for _, labels in batches]
    with load(thumbnails, shuffle=True) as loader:
        tf.train.Checkpoint(loader=LoaderState(loader)).restore(path).assert_consumed()
        view = tf_dataset(loader)
        assert view.cardinality() == tf.data.UNKNOWN_CARDINALITY
        assert [labels.numpy().tolist() for _, labels in view] == expected
        assert len(list(view)) == 4


def test_a_checkpoint_of_another_loader_is_refused(thumbnails: Path, tmp_path: Path) -> None:
    with load(thumbnails, shuffle=True) as loader, load(thumbnails, seed=1, shuffle=True) as other:
        path = tf.train.Checkpoint(loader=LoaderState(loader)).save(tmp_path / "checkpoint")
        with pytest.raises(CheckpointError, match="seed was 0 and is 1"):
            tf.train.Checkpoint(loader=LoaderState(other)).restore(path)


@pytest.mark.filterwarnings("ignore:a bad sample was")
def test_an_empty_batch_has_its_types(pack_images: Any, make_jpeg: Any) -> None:
    folder = pack_images([make_jpeg(0)], crc=np.ones(1, np.uint32))
    with load(folder, on_error="skip", columns=("image", "label", "key")) as loader:
        images, labels, keys = next(iter(loader))
    assert (tuple(images.shape), labels.dtype, keys.dtype) == ((0, 3, 16, 16), tf.int64, tf.string)
