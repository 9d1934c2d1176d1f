"""Trains a model that Keras builds when it sees the first batch; test_keras.py runs it.

KERAS_BACKEND=jax python keras_backend.py SHARDS
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
from helpers.keras_states import StateRecord
from helpers.loaders import image_arguments

import stoker
from stoker.augment import Normalize, Resize

states: list[tuple[int, int]] = []


def load(**options: Any) -> stoker.ImageLoader:
    transforms = [Resize((8, 8)), Normalize()]
    arguments = {"batch_size": 16, "output": "keras", "layout": "NHWC", "transforms": transforms, **options}
    return stoker.ImageLoader(sys.argv[1], **image_arguments(**arguments))


def fit(state: Any = None, stop: int = -1) -> Any:
    loader = load(shuffle=True)
    if state:
        loader.load_state_dict(state)
    first = loader.state_dict()["epoch"]
    record = StateRecord(loader, stop)
    model.fit(
        loader, initial_epoch=first, epochs=2, verbose=0, callbacks=[record], validation_data=validation
    )
    states.extend(record.states)
    return loader.state_dict()


validation = load(columns=("image", "label"))
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(61)])
model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
fit()
fit(fit(stop=5))
evaluated = [float(model.evaluate(validation, verbose=0)) for _ in range(2)]
predicted = model.predict(load(columns=("image",)), verbose=0)
each = [np.array(keras.ops.convert_to_numpy(model(batch.image))) for batch in load()]
print(
    json.dumps(
        {
            "backend": keras.backend.backend(),
            "states": states,
            "evaluated": evaluated,
            "passes": validation.state_dict()["epoch"],
            "difference": float(np.abs(predicted - np.concatenate(each)).max()),
        }
    )
)
