"""tf.data: TFRecord files, and ``bucket_by_sequence_length``."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow reads it at import
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from stoker.benchmarks.peers.base import PeerSettings, PeerSource
from stoker.benchmarks.peers.text.sequences import PAD, Sequences

_BUCKETS = 8
_SHUFFLE_BUFFER = 10_000


class TFDataText:
    """Batches from eight buckets with quantiles of the lengths as boundaries."""

    packages: tuple[str, ...] = ("tensorflow", "tensorflow-cpu")
    lead = 0

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        """Write a TFRecord file of Examples for each thread."""
        sequences = Sequences(source)
        for part in range(settings.num_threads):
            with tf.io.TFRecordWriter(str(source.scratch / f"{part:05d}.tfrecord")) as writer:
                for i in range(part, len(sequences), settings.num_threads):
                    values = tf.train.Int64List(value=sequences.ids(i).tolist())
                    features = tf.train.Features(feature={"ids": tf.train.Feature(int64_list=values)})
                    writer.write(tf.train.Example(features=features).SerializeToString())

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Build the dataset."""
        tf.config.threading.set_inter_op_parallelism_threads(settings.num_threads)
        options = tf.data.Options()
        options.threading.private_threadpool_size = settings.num_threads
        options.deterministic = False
        lengths = Sequences(source).lengths
        boundaries = np.unique(np.quantile(lengths, np.arange(1, _BUCKETS) / _BUCKETS).astype(int)) + 1
        paths = sorted(map(str, source.scratch.glob("*.tfrecord")))
        self._dataset = (
            tf.data.TFRecordDataset(paths, num_parallel_reads=settings.num_threads)
            .shuffle(_SHUFFLE_BUFFER, seed=settings.seed)
            .map(_parse, num_parallel_calls=tf.data.AUTOTUNE)
            .bucket_by_sequence_length(
                lambda ids, _: tf.shape(ids)[0],
                bucket_boundaries=boundaries.tolist(),
                bucket_batch_sizes=[settings.batch_size] * (len(boundaries) + 1),
                padding_values=(np.int64(PAD), np.int64(0)),
                drop_remainder=True,
            )
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )
        return (f"order from a shuffle buffer of {_SHUFFLE_BUFFER:,} records",)

    def epoch(self) -> Iterator[Any]:
        """Yield the batches of one pass over the dataset."""
        return iter(self._dataset.as_numpy_iterator())


def _parse(record: Any) -> tuple[Any, Any]:
    ids = tf.io.parse_single_example(record, {"ids": tf.io.RaggedFeature(tf.int64)})["ids"]
    return ids, tf.ones_like(ids)
