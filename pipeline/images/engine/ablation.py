"""An ablation of a loader of images: its rate with reading, decoding or augmentation left out, in turns."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.version import __version__

from ...caching.prefetcher import is_remote
from ...engines.ablated_stage import NO_STAGE, AblatedStage
from ...engines.selection.rate_cache import MeasuredRates, RateCache
from ...execution.loader import Loader
from ...execution.stats import factors_in_words
from ..batch_transforms import split_transforms
from ..config import ImageLoaderConfig

AS_IT_IS = "as it is"
_CURES = {
    "reading": "a faster disk (stoker stage), or smaller images (stoker convert --resize)",
    "decoding": "stoker convert --restarts, or --resize shorter=256, with --encoding raw at best",
    "augmentation": "smaller crops, or fewer and simpler transforms",
}
_LEAST_GAIN = 1.1  # a smaller factor is within the noise of a machine
_MOST_BYTES = 1 << 30  # of decoded images
_BATCHES = 4  # of an epoch
_SECONDS = 0.4  # of a turn, at least
_ALONE: Mapping[str, Any] = dict.fromkeys(
    ("mesh", "workers", "cache", "cache_size", "sampler", "steps_per_epoch")
) | {"rank": 0, "world_size": 1, "replicate": 1, "shuffle": True, "on_error": "skip", "max_bad": 1.0}
"""Arguments of the loaders that are measured."""


@dataclass(frozen=True)
class Ablation:
    """The rates of a loader with each stage left out."""

    # Median rates: "as it is", and without "reading", "decoding" and "augmentation"
    images_per_second: Mapping[str, float]
    engine: str  # Name of the engine
    threads: int  # Threads of the engine
    store: str  # Folder of the dataset
    images: int  # Images that were measured

    @property
    def factors(self) -> dict[str, float]:
        """How many times as fast the loader is without each stage."""
        return _factors(self.images_per_second)

    @property
    def verdict(self) -> str:
        """What limits the loader, and what would help by how much."""
        best = max(self.factors, key=self.factors.__getitem__)
        limit, cure = f"{best} is the limit", _CURES[best]
        if self.factors[best] < _LEAST_GAIN:
            limit, cure = "no single stage is the limit", "more threads or cores"
        where = f"Engine {self.engine!r}, shards in {self.store}"
        return f"{where}: {limit}. {factors_in_words(self.factors)} What helps: {cure}."


def ablate(
    make: Callable[..., Loader],
    options: Mapping[str, Any],
    config: ImageLoaderConfig,
    *,
    engine: str,
    threads: int,
    images: int,
    rounds: int,
) -> Ablation:
    """Measure a loader on some images of its dataset, and keep the rates for :func:`cached_factors`."""
    if len(config.dataset.datasets) > 1 or is_remote(config.dataset):
        raise ConfigError(
            "an ablation reads one dataset that lies on this machine",
            hint="Measure a loader of one dataset of a mixture; bring a remote one here with stoker stage.",
        )
    if engine == "dali":
        raise ConfigError(
            "an ablation leaves out stages of the engines 'native' and 'reference', and this one is 'dali'",
            hint="Measure a loader with engine='native'.",
        )
    whole = config.dataset.datasets[0]
    some = _some(whole, images)
    turns = _turns(partial(make, some), {**options, **_ALONE, **_smaller(options, len(some))}, config)
    rates: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds + 1):
        for name, turn in turns.items():
            rates[name].append(_rate(turn, () if name == "reading" else some.data_files))
    medians = {name: statistics.median(found[1:]) for name, found in rates.items()}
    machine = f"{platform.node()}, {threads} threads"
    _cache().add(MeasuredRates(_key(config), whole.address, machine, medians))
    return Ablation(medians, engine, threads, whole.address, len(some))


def cached_factors(config: ImageLoaderConfig) -> dict[str, float]:
    """The factors of the last ablation of these transforms and this dataset; empty if there was none."""
    rates = _cache().find(_key(config))
    return _factors(rates.images_per_second) if rates else {}


def _factors(rates: Mapping[str, float]) -> dict[str, float]:
    return {name: rate / rates[AS_IT_IS] for name, rate in rates.items() if name != AS_IT_IS}


def _cache() -> RateCache:
    return RateCache("ablation-rates")


def _key(config: ImageLoaderConfig) -> str:
    work = json.dumps([config.transforms_to_json(), config.batch_transform_plan.to_json()], sort_keys=True)
    digest = hashlib.blake2b(work.encode(), digest_size=16).hexdigest()
    return json.dumps({"stoker": __version__, "dataset": config.dataset.fingerprint, "work": digest})


def _some(dataset: Dataset, images: int) -> Dataset:
    """Evenly spread samples, so few that they fit into memory when they are decoded."""
    spread = np.unique(np.linspace(0, len(dataset) - 1, images).astype(np.int64))
    shown = dataset.samples(spread)
    size = float(np.mean(3.0 * shown.height * shown.width))
    return dataset.select(spread[:: max(1, int(np.ceil(size * len(spread) / _MOST_BYTES)))])


def _smaller(options: Mapping[str, Any], images: int) -> dict[str, int]:
    """The batch size, if there is one, reduced so that an epoch has some batches, as in a training."""
    batch_size = options.get("batch_size")
    return {} if batch_size is None else {"batch_size": min(batch_size, max(1, images // _BATCHES))}


def _turns(
    make: Callable[..., Loader], options: Mapping[str, Any], config: ImageLoaderConfig
) -> dict[str, Callable[[], Loader]]:
    """A function that makes the loader of each turn, by what it leaves out.

    Batch transforms and functions count as augmentation. With mosaics there is no rate without augmentation,
    because the native engine cannot only decode the parts that a mosaic shows.
    """
    turns: dict[str, Callable[[], Loader]] = {
        AS_IT_IS: partial(make, NO_STAGE, **options),
        "reading": partial(make, NO_STAGE, **{**options, "verify": False}),
        "decoding": partial(make, AblatedStage("decoding"), **options),
    }
    if "composition" not in config.needs:
        transforms = options.get("transforms", ())
        of_images = transforms if isinstance(transforms, Mapping) else split_transforms(transforms)[0]
        options = {**options, "transforms": of_images}
        turns["augmentation"] = partial(make, AblatedStage("augmentation"), **options)
    return turns


def _rate(make: Callable[[], Loader], cold: Iterable[Path]) -> float:
    """Images a second over epochs of new loaders; the system forgets ``cold`` files before each."""
    images, seconds = 0, 0.0
    while not images or seconds < _SECONDS:
        for file in cold:
            _forget(file)
        with make() as loader:
            began = time.perf_counter()
            for _ in loader:
                pass
            seconds += time.perf_counter() - began
            images += loader.stats().samples
    return images / seconds


def _forget(file: Path) -> None:
    """Ask the operating system to forget the bytes of a file."""
    if hasattr(os, "posix_fadvise"):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
