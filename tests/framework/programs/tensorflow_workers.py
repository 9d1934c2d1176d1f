"""Iterates over a loader as a worker of MultiWorkerMirroredStrategy; for tests/stress/test_ranks_on_ports.py.

TF_CONFIG=... python tensorflow_workers.py SHARDS
"""

from __future__ import annotations

import json
import sys

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before any other use of TensorFlow

import stoker  # noqa: E402
from stoker.augment import Resize  # noqa: E402
from stoker.pipeline.adapters.tensorflow import tf_dataset  # noqa: E402

loader = stoker.ImageLoader(
    sys.argv[1],
    batch_size=10,
    shuffle=True,
    last_batch="drop",
    output="tensorflow",
    layout="NHWC",
    columns=("image", "row"),
    num_threads=1,
    transforms=[Resize((8, 8))],
)
epochs = []
for dataset in (
    strategy.distribute_datasets_from_function(lambda context: tf_dataset(loader)),
    strategy.experimental_distribute_dataset(tf_dataset(loader)),
):
    here = [strategy.experimental_local_results(rows) for _, rows in dataset]
    epochs.append([row for replicas in here for rows in replicas for row in rows.numpy().tolist()])
print(json.dumps([repr(loader), *epochs]))
