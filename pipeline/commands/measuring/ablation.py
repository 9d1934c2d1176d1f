"""An ablation of loading: the rate of a dataset with reading, decoding or augmentation left out, in turns."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment import CenterCrop, Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.formats.conversion.samples.writer import Writer
from stoker.formats.open import open as open_dataset

from ...images.loader import ImageLoader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.formats.dataset.dataset import Dataset

__all__ = ["Ablation", "Turn", "ablate", "verdict"]

AS_IT_IS = "as it is"
_CURES = {
    "reading": "a faster disk (stoker stage), or smaller images (stoker convert --resize)",
    "decoding": "stoker convert --restarts, or --resize shorter=256, with --encoding raw at best",
    "augmentation": "smaller crops, or fewer and simpler transforms",
}
_LEAST_GAIN = 1.1  # a smaller factor is within the noise of a machine


@dataclass(frozen=True)
class Turn:
    """A rate with one stage left out.

    Attributes:
        free: The stage, or :data:`AS_IT_IS`.
        images_per_second: Median rate.
        factor: How much faster than as it is.
    """

    free: str
    images_per_second: float
    factor: float


@dataclass(frozen=True)
class Ablation:
    """The rates of a dataset, as it is first.

    Attributes:
        turns: The rates.
        engine: Name of the engine.
        threads: Threads of the engine; None for all cores.
        store: Folder or URL of the dataset.
        images: Images that were measured.
    """

    turns: tuple[Turn, ...]
    engine: str
    threads: int | None
    store: str
    images: int


def ablate(
    dataset: Dataset, *, images: int = 192, size: int = 224, threads: int | None = None, rounds: int = 3
) -> Ablation:
    """Measure random crops, flipped and normalised, and the same without each stage.

    "as it is" reads the shards anew from their storage, as far as the operating system forgets them when it
    is asked to; without reading, their bytes are in memory. Without decoding, the same images are raw pixels,
    in memory. Without augmentation, crops are copied from the middle of images that are decoded.

    Args:
        dataset: Images.
        images: Images to measure, evenly spread.
        size: Side of the crops, pixels.
        threads: Threads of the engine.
        rounds: Turns of each after one that warms up.
    """
    some = dataset.select(np.unique(np.linspace(0, len(dataset) - 1, images).astype(np.int64)))
    work: Sequence[Any] = [RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()]
    with tempfile.TemporaryDirectory(prefix="stoker-ablation-") as scratch:
        raw = _raw_copy(some, Path(scratch) / "raw")
        kinds = {
            AS_IT_IS: (some, work, True),
            "reading": (some, work, False),
            "decoding": (raw, work, False),
            "augmentation": (some, [CenterCrop(size)], False),
        }
        rates: dict[str, list[float]] = {name: [] for name in kinds}
        engine = ""
        for _ in range(rounds + 1):
            for name, (source, transforms, is_cold) in kinds.items():
                rate, engine = _rate(source, transforms, threads, is_cold=is_cold)
                rates[name].append(rate)
    medians = {name: statistics.median(found[1:]) for name, found in rates.items()}
    turns = tuple(Turn(name, rate, rate / medians[AS_IT_IS]) for name, rate in medians.items())
    return Ablation(turns, engine, threads, dataset.address, len(some))


def verdict(found: Ablation) -> str:
    """What limits the loader, and what would help by how much."""
    best = max(found.turns[1:], key=lambda turn: turn.factor)
    where = f"Engine {found.engine!r}, shards in {found.store}"
    if best.factor < _LEAST_GAIN:
        return f"{where}: no single stage is the limit; more threads or cores would help."
    return (
        f"{where}: {best.free} is the limit. Without it the loader would be {best.factor:.1f} times as fast. "
        f"What helps: {_CURES[best.free]}."
    )


def _raw_copy(some: Dataset, folder: Path) -> Dataset:
    with Writer(folder, encoding="raw") as writer:
        for position, key in enumerate(some.keys(range(len(some)))):
            writer.write(some.read(position), key=key)
    return open_dataset(folder)


def _rate(
    dataset: Dataset, transforms: Sequence[Any], threads: int | None, *, is_cold: bool
) -> tuple[float, str]:
    """Images a second over two epochs in a loader of its own, one if the bytes are to be read; its engine."""
    if is_cold:
        for file in dataset.data_files:
            _forget(file)
    with ImageLoader(
        dataset,
        batch_size=32,
        transforms=transforms,
        columns=("image",),
        shuffle=True,
        num_threads=threads,
        on_error="skip",
        max_bad=1.0,
    ) as loader:
        began, images = time.perf_counter(), 0
        for _ in range(1 if is_cold else 2):
            images += sum(len(batch.image) for batch in loader)
        return images / (time.perf_counter() - began), loader.engine


def _forget(file: Path) -> None:
    """Ask the operating system to forget the bytes of a file."""
    if hasattr(os, "posix_fadvise"):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
