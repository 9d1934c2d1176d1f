"""The gain of a conversion, measured on some images, for ``stoker info`` and ``stoker advise``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.formats.codecs.codec import Codec
from stoker.formats.conversion.options import ImageStorage
from stoker.formats.conversion.writer import Writer
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.files import temporary_folder
from stoker.formats.open import open as open_dataset

from ..images.loader import ImageLoader
from ..options import BadSamples

_IMAGES = 192
_ROUNDS = 3
_FORMS: Mapping[str, Mapping[str, Any]] = {
    "stoker convert": {},
    "stoker convert --restarts": {"storage": ImageStorage(restarts=True)},
    "stoker convert --resize shorter=256": {"resize": "shorter=256"},
}
AS_THEY_ARE = "as they are"
# Bytes that a decoder holds for each pixel of an image. A progressive JPEG needs coefficients of 16 bits, and
# another JPEG needs some rows. A PNG needs its stream and all rows.
_OF_JPEG, _OF_OTHERS = 5, 10


@dataclass(frozen=True)
class Gain:
    """The rate of a loader for one form of the images."""

    form: str  # The command that makes the form, or :data:`AS_THEY_ARE`
    images_per_second: float  # Median rate of random crops with all cores
    bytes: int  # Bytes of all images in this form, extended from those that were measured
    decoder_bytes: int = 0  # The most memory that decoding an image takes; 0 if all are raw pixels


def measure_gain(
    dataset: Dataset, images: int = _IMAGES, forms: Mapping[str, Mapping[str, Any]] = _FORMS, size: int = 224
) -> list[Gain]:
    """Return the rates of the images as they are, then of each form; it takes a few seconds.

    Some images, evenly spread, are converted into a temporary folder. All forms are read in turns, with their
    bytes in memory.
    """
    sample = dataset.select(np.unique(np.linspace(0, len(dataset) - 1, images).astype(np.int64)))
    transforms = [RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()]
    with temporary_folder("stoker-gain-") as scratch, ExitStack() as stack:
        datasets = {AS_THEY_ARE: sample}
        for number, (name, options) in enumerate(forms.items()):
            with Writer(folder := Path(scratch) / str(number), **options) as writer:
                for position, key in enumerate(sample.keys(range(len(sample)))):
                    writer.write(sample.read(position), key=key)
            datasets[name] = open_dataset(folder)
        loaders = {
            name: stack.enter_context(
                ImageLoader(
                    form,
                    batch_size=32,
                    transforms=transforms,
                    columns=("image",),
                    shuffle=True,
                    engine="native",
                    errors=BadSamples("skip", 1.0),
                )
            )
            for name, form in datasets.items()
        }
        rates: dict[str, list[float]] = {name: [] for name in datasets}
        for _ in range(_ROUNDS + 1):
            for name, loader in loaders.items():
                loader.load_state_dict(loader.state_dict())  # discards the batches that are made ahead
                began = time.perf_counter()
                made = sum(len(batch.image) for batch in loader)
                rates[name].append(made / (time.perf_counter() - began))
        share = int(dataset.column("length").sum()) / int(sample.column("length").sum())
        return [
            Gain(
                name,
                statistics.median(rates[name][1:]),
                int(form.column("length").sum() * share),
                decoder_bytes(dataset if form is sample else form),
            )
            for name, form in datasets.items()
        ]


def decoder_bytes(dataset: Dataset) -> int:
    """The most memory that decoding an image of the dataset takes."""
    height, width, codec = (dataset.column(name).astype(np.int64) for name in ("height", "width", "codec"))
    of_a_pixel = np.select([codec == Codec.RAW, codec == Codec.JPEG], [0, _OF_JPEG], _OF_OTHERS)
    return int((height * width * of_a_pixel).max())
