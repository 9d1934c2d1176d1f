"""tf.data on TFRecord shards, as in the ImageNet pipelines of tensorflow/models."""

from __future__ import annotations

import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow reads it at import
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from stoker.benchmarks.peers.base import MEAN, RATIO, SCALE, STD, PeerSettings, PeerSource, Unsupported

_SHUFFLE_BUFFER = 2048
_SCALE = np.array([1 / (255 * std) for std in STD], np.float32)
_OFFSET = np.array([-mean / std for mean, std in zip(MEAN, STD, strict=True)], np.float32)
_SERVER = """
import sys
import tensorflow as tf

service = tf.data.experimental.service
dispatcher = service.DispatchServer()
address = dispatcher.target.partition("://")[2]
worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
print(dispatcher.target, flush=True)
sys.stdin.read()
"""
"""A dispatcher and a worker of tf.data's service, until standard input ends."""


class TFData:
    """A dataset with parallel reads and maps, a shuffle buffer, fused decode and crop, and prefetching."""

    packages: tuple[str, ...] = ("tensorflow", "tensorflow-cpu")
    lead = 0
    antialias = True

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        tf.config.threading.set_inter_op_parallelism_threads(settings.num_threads)
        tf.config.threading.set_intra_op_parallelism_threads(1)  # a sample is the unit of parallelism
        self._size, self._raw = settings.size, source.raw
        options = tf.data.Options()
        options.threading.private_threadpool_size = settings.num_threads
        options.threading.max_intra_op_parallelism = 1
        options.deterministic = False
        # A checkpoint then leaves out the state of the random crops, without which it would be refused.
        options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
        if source.container != "tfrecord":
            raise Unsupported(f"tf.data reads TFRecord, and this dataset is {source.container}")
        self._dataset = (
            self._records(source, settings)
            .map(self._transform, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(settings.batch_size, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )
        order = f"order from a shuffle buffer of {_SHUFFLE_BUFFER} records"
        return (order,) if self.antialias else (order, "resizes without antialiasing")

    def epoch(self) -> Iterator[npt.NDArray[np.float32]]:
        self._batches = iter(self._dataset)
        return self._rest()

    def state(self, scratch: Path) -> Any:
        return tf.train.Checkpoint(iterator=self._batches).write(str(scratch / "iterator"))

    def resume(self, state: Any) -> Iterator[npt.NDArray[np.float32]]:
        self._batches = iter(self._dataset)
        tf.train.Checkpoint(iterator=self._batches).read(state)
        return self._rest()

    def _rest(self) -> Iterator[npt.NDArray[np.float32]]:
        for images, _ in self._batches:
            yield images.numpy()

    def _records(self, source: PeerSource, settings: PeerSettings) -> Any:
        paths = [str(path) for path in source.shards]
        records = tf.data.TFRecordDataset(paths, num_parallel_reads=min(len(paths), settings.num_threads))
        return records.shuffle(_SHUFFLE_BUFFER, seed=settings.seed).map(_parse)

    def _transform(self, encoded: Any, label: Any, shape: Any) -> tuple[Any, Any]:
        sizes = tf.stack([*shape, 3]) if self._raw else tf.image.extract_jpeg_shape(encoded)
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            sizes,
            tf.zeros([1, 0, 4]),
            area_range=SCALE,
            aspect_ratio_range=RATIO,
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        top, left, _ = tf.unstack(begin)
        height, width, _ = tf.unstack(extent)
        if self._raw:
            pixels = tf.reshape(tf.io.decode_raw(encoded, tf.uint8), sizes)
            image = tf.image.crop_to_bounding_box(pixels, top, left, height, width)
        else:
            image = tf.image.decode_and_crop_jpeg(encoded, [top, left, height, width], channels=3)
        image = tf.image.resize(image, (self._size, self._size), antialias=self.antialias)
        image = tf.image.random_flip_left_right(image)
        return tf.transpose(image * _SCALE + _OFFSET, (2, 0, 1)), label


class TFDataPlain(TFData):
    """The same dataset without antialiasing, which is the default of ``tf.image.resize``."""

    antialias = False


class TFDataService(TFData):
    """The same dataset, run by tf.data's service: another process makes the batches."""

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        notes = super().prepare(source, settings)
        # The server reads until its standard input ends, as it does when this process dies.
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout is not None, "it is a pipe"
        target = self._server.stdout.readline().strip()
        self._dataset = self._dataset.apply(
            tf.data.experimental.service.distribute(processing_mode="parallel_epochs", service=target)
        )
        return (*notes, "one worker of the service on this machine")


def _parse(record: Any) -> tuple[Any, Any, Any]:
    features = tf.io.parse_single_example(
        record,
        {
            "image/encoded": tf.io.FixedLenFeature((), tf.string),
            "image/class/label": tf.io.FixedLenFeature((), tf.int64),
            "image/height": tf.io.FixedLenFeature((), tf.int64),
            "image/width": tf.io.FixedLenFeature((), tf.int64),
        },
    )
    shape = (tf.cast(features["image/height"], tf.int32), tf.cast(features["image/width"], tf.int32))
    return features["image/encoded"], features["image/class/label"], shape
