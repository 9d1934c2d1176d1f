"""The states of a loader that Keras trains on, for tests in this process and in a program."""

from __future__ import annotations

from typing import Any

import keras

import stoker


class StateRecord(keras.callbacks.Callback):  # type: ignore[misc]  # keras is optional
    """Records the state of the loader after each step; stops the training after ``stop`` steps."""

    def __init__(self, loader: stoker.ImageLoader, stop: int = -1) -> None:
        super().__init__()
        self.loader = loader
        self.stop = stop
        self.states: list[tuple[int, int]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        state = self.loader.state_dict()
        self.states.append((state["epoch"], state["position"]))
        self.model.stop_training = len(self.states) == self.stop
