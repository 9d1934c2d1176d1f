"""Loaders of images and text with flat options, their batches, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

import stoker
from stoker import ImageLoader
from stoker.augment import CenterCrop, Resize
from stoker.bucketing import BatchContext
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.remote.block_files import BlockFiles
from stoker.pipeline.caching.read_ahead import BatchReads, CacheReadAhead
from stoker.pipeline.engines.base import EngineSettings, ImageFormat
from stoker.pipeline.execution.passes import Prefetcher
from stoker.pipeline.execution.stats import StatsTotals
from stoker.pipeline.images.planned_batches import PlannedBatch, planned_batches


def batch_context(rows: npt.ArrayLike, epoch: int = 0, step: int = 0) -> BatchContext:
    """Return the context of whole samples, each drawn once, in the order of the dataset."""
    numbers = np.asarray(rows, np.int64)
    return BatchContext(epoch, step, numbers, np.zeros_like(numbers), numbers, seed=7)


def rows_of(batches: Iterable[Any]) -> list[int]:
    """The column "row" of all batches, one after the other."""
    return [int(row) for batch in batches for row in batch.row]


BLOCKS = np.arange(4)
BLOCK = 4096
SIZES = [10_000, 0, 4096, 4097]


def block_files(folder: Path, sizes: Sequence[int] = (4 * BLOCK,)) -> BlockFiles:
    return BlockFiles(folder, [f"f{i}" for i in range(len(sizes))], list(sizes), BLOCK)


def read_ahead_over(files: BlockFiles, requests: Any) -> CacheReadAhead:
    """A read-ahead whose only batch needs all blocks."""
    dataset = SimpleNamespace(limit=None, ranges=lambda rows: SimpleNamespace(shard=0, offset=0, length=0))
    source: Any = SimpleNamespace(
        dataset=dataset,
        files=SimpleNamespace(blocks=files, check=lambda ranges: None),
        requests=requests,
        last_use=np.zeros(4, np.int64),
    )
    files.covering = lambda *ranges: BLOCKS  # type: ignore[method-assign]  # all of them
    return CacheReadAhead(source, [BatchReads(np.arange(1))], ahead=1 << 20)


def make(folder: Path) -> BlockFiles:
    return block_files(folder, SIZES)


def array(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


class Reader:
    """Reads from ``contents`` and records the requests."""

    def __init__(self, contents: list[bytes]) -> None:
        self.contents = contents
        self.asked: list[tuple[int, int, int]] = []

    def __call__(self, file: int, start: int, stop: int) -> bytes:
        self.asked.append((file, start, stop))
        return self.contents[file][start:stop]


_RANKS = ("rank", "world_size", "mesh", "replicate", "context", "context_slices", "balance")
_READING = ("read_ahead", "verify", "mapped", "exact", "max_pixels", "workers")


def image_arguments(**flat: Any) -> dict[str, Any]:
    """Return arguments of ImageLoader; options that have an option object go into it."""
    given = _shared(flat)
    if (pixels := given.pop("pixels_per_batch", None)) is not None:
        given["batch_size"] = stoker.Pixels(pixels)
    padding = _taken(given, "pad_to_multiple_of", "aspect_ratio_group_factor")
    if padding:
        given["sizes"] = (stoker.Ragged if given.get("sizes") == "ragged" else stoker.Padded)(**padding)
    if "draw_seed" in given:
        order, augmentation = given.get("seed", 0), given.pop("draw_seed")
        given["seed"] = stoker.Seeds(order, order if augmentation is None else augmentation)
    forms = _taken(given, "box_format", "min_visible", "min_size", "arrays")
    if forms:
        form = {"form": given["objects"]} if "objects" in given else {}
        given["objects"] = stoker.Objects(**form, **forms)
    if (dali := given.pop("dali", None)) is not None:
        given["engine"] = dali
    if errors := _taken(given, "on_error", "max_bad"):
        given["errors"] = stoker.BadSamples(**errors)
    return given


def text_arguments(**flat: Any) -> dict[str, Any]:
    """Return arguments of TextLoader; options that have an option object go into it."""
    given = _shared(flat)
    if (tokens := given.pop("max_tokens", None)) is not None:
        given["batch_size"] = stoker.MaxTokens(tokens)
    if "pad_to_multiple_of" in given:
        multiple = given.pop("pad_to_multiple_of")
        given["buckets"] = stoker.Buckets(given.get("buckets", "auto"), multiple)
    if "max_sequences" in given:
        given["pack"] = stoker.Packing(given["pack"], given.pop("max_sequences"))
    if (stream := given.pop("stream", None)) is not None:
        given["pack"] = stoker.Streams(stream)
    if "too_long" in given:
        given["max_length"] = stoker.MaxLength(given.get("max_length"), given.pop("too_long"))
    if (samples := given.pop("samples_per_epoch", None)) is not None:
        given["steps_per_epoch"] = stoker.Samples(samples)
    if (mask := given.pop("mask", None)) is not None:
        given["labels"] = mask
    return given


def _shared(flat: dict[str, Any]) -> dict[str, Any]:
    given = dict(flat)
    if ranks := _taken(given, *_RANKS):
        given["ranks"] = stoker.Ranks(**ranks)
    reading, cache = _taken(given, *_READING), _taken(given, "cache", "cache_size")
    if cache.get("cache") is not None:
        reading["cache"] = stoker.Cache(cache["cache"], cache.get("cache_size"))
    if reading:
        given["reading"] = stoker.Reading(**reading)
    if given.pop("pin_memory", False) and given.get("device") in (None, "cpu"):
        given["device"] = "pinned"
    return given


def _taken(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given.pop(name) for name in names if name in given}


def loader(dataset: Any, **options: Any) -> stoker.ImageLoader:
    arguments: dict[str, Any] = {
        "batch_size": 8,
        "shuffle": True,
        "seed": 3,
        "transforms": [Resize(32), CenterCrop(32)],
        "columns": ("image", "label", "row"),
        "engine": "native",
        "num_threads": 1,
        **options,
    }
    return stoker.ImageLoader(dataset, **image_arguments(**arguments))


def received(loading: stoker.ImageLoader) -> list[tuple[list[int], bytes]]:
    """Returns the rows and the pixels of each batch of a pass."""
    return [(batch.row.tolist(), batch.image.tobytes()) for batch in loading]


def settings_of(dataset: Dataset, image_format: ImageFormat | None = None, **options: Any) -> EngineSettings:
    """Settings for images of a form, by default float32 NCHW, and of at most a hundred million pixels."""
    form, options = image_format or ImageFormat(), {"max_pixels": 10**8, **options}
    return EngineSettings(dataset.data_files, dataset.data_sizes, form, **options)


def planned(loader: ImageLoader, epoch: int = 0) -> list[PlannedBatch]:
    """Returns the plan of each batch of an epoch: no column has the samples that a mosaic shows."""
    return list(planned_batches(loader.pipeline.config, loader.steps(epoch, 0), epoch))


class Numbers:
    """A producer of the batches 0..n-1 that can fail at one of them."""

    def __init__(
        self, n: int, limit: int = 2, bad_start: int | None = None, bad_finish: int | None = None
    ) -> None:
        self.max_in_flight = limit
        self.n = n
        self.started = 0
        self.finished = 0
        self.most_in_flight = 0
        self._bad_start = bad_start
        self._bad_finish = bad_finish

    def start(self) -> bool:
        if self.started == self._bad_start:
            raise ZeroDivisionError("start")
        if self.started == self.n:
            return False
        self.started += 1
        self.most_in_flight = max(self.most_in_flight, self.started - self.finished)
        return True

    def finish(self) -> int:
        number = self.finished
        self.finished += 1
        if number == self._bad_finish:
            raise ZeroDivisionError("finish")
        return number


def started(producers: Iterable[Any], depth: int, totals: StatsTotals) -> Prefetcher:
    batches: Prefetcher = Prefetcher(producers, depth, totals)
    batches.worker.start()
    return batches


class Groups(Numbers):
    """Starts its batches three at a time."""

    def start(self) -> int:
        return sum(super(Groups, self).start() for _ in range(3))


def load_rows(folder: Path, engine: str = "native", **options: Any) -> ImageLoader:
    """Returns a loader of five images of 16 x 16 a batch, with their rows, keys and records."""
    options = {"batch_size": 5, "columns": ("image", "row", "key", "record"), "num_threads": 2, **options}
    return ImageLoader(folder, **image_arguments(transforms=[Resize((16, 16))], engine=engine, **options))
