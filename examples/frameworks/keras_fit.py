"""Train a small Keras network on photographs, with any backend of Keras.

KERAS_BACKEND=tensorflow python examples/frameworks/keras_fit.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import keras

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

PHOTOS = Path(__file__).parents[1] / "photos" / "train"


def main(shards: str = "shards/photos", epochs: str = "2") -> None:
    if not Path(shards, "dataset.json").exists():
        stoker.convert(PHOTOS, shards, seed=0)
    loader = stoker.ImageLoader(
        shards,
        batch_size=36,
        shuffle=True,
        seed=0,
        output="keras",
        layout="NHWC",
        transforms=[RandomResizedCrop(96), RandomHorizontalFlip(), Normalize()],
    )
    network = keras.Sequential(
        [
            keras.layers.Conv2D(32, 5, strides=4, activation="relu"),
            keras.layers.Conv2D(64, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(loader.dataset.num_classes),
        ]
    )
    network.compile(
        optimizer=keras.optimizers.AdamW(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    network.fit(loader, epochs=int(epochs), verbose=2)
    print(loader.stats().verdict)


if __name__ == "__main__":
    main(*sys.argv[1:])
