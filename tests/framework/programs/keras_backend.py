"""Fits a model without weights, which Keras builds from a look at a batch; run by test_keras.py.

KERAS_BACKEND=jax python keras_backend.py SHARDS
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras

import stoker
from stoker.augment import Normalize, Resize
from stoker.pipeline.adapters.keras import keras_dataset


class Record(keras.callbacks.Callback):
    """Where the loader is after each step."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        state = loader.state_dict()
        places.append((state["epoch"], state["position"]))


loader = stoker.ImageLoader(
    sys.argv[1],
    batch_size=16,
    shuffle=True,
    output=keras.backend.backend(),
    layout="NHWC",
    transforms=[Resize((8, 8)), Normalize()],
)
places: list[tuple[int, int]] = []
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(61)])
model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(keras_dataset(loader), epochs=2, verbose=0, callbacks=[Record()])
print(json.dumps({"backend": keras.backend.backend(), "places": places}))
