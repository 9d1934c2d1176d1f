"""Trains a model without weights, which Keras builds from a look at a batch; run by test_keras.py.

KERAS_BACKEND=jax python keras_backend.py SHARDS
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np

import stoker
from stoker.augment import Normalize, Resize

places: list[tuple[int, int]] = []


class Record(keras.callbacks.Callback):
    """Where a loader is after each step; ends training after the step ``stop``."""

    def __init__(self, loader: stoker.ImageLoader, stop: int = -1) -> None:
        super().__init__()
        self.loader = loader
        self.stop = stop

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        state = self.loader.state_dict()
        places.append((state["epoch"], state["position"]))
        self.model.stop_training = len(places) == self.stop


def load(**options: Any) -> stoker.ImageLoader:
    transforms = [Resize((8, 8)), Normalize()]
    given = {"batch_size": 16, "output": "keras", "layout": "NHWC", "transforms": transforms, **options}
    return stoker.ImageLoader(sys.argv[1], **given)


def fit(state: Any = None, stop: int = -1) -> Any:
    loader = load(shuffle=True)
    if state:
        loader.load_state_dict(state)
    first = loader.state_dict()["epoch"]
    record = Record(loader, stop)
    model.fit(
        loader, initial_epoch=first, epochs=2, verbose=0, callbacks=[record], validation_data=validation
    )
    return loader.state_dict()


validation = load(columns=("image", "label"))
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(61)])
model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
fit()
fit(fit(stop=len(places) + 5))
evaluated = [float(model.evaluate(validation, verbose=0)) for _ in range(2)]
predicted = model.predict(load(columns=("image",)), verbose=0)
each = [np.array(keras.ops.convert_to_numpy(model(batch.image))) for batch in load()]
print(
    json.dumps(
        {
            "backend": keras.backend.backend(),
            "places": places,
            "evaluated": evaluated,
            "passes": validation.state_dict()["epoch"],
            "difference": float(np.abs(predicted - np.concatenate(each)).max()),
        }
    )
)
