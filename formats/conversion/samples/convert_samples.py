"""``stoker.convert`` of a dataset in Python: a writer gets its items, or the samples made of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from itertools import chain, count, islice
from typing import Any, get_args

import numpy as np

from stoker.errors import ConfigError

from ...threads import check_threads
from ..execution import Engine, Summary
from ..plan import shuffled
from ..run import Progress, no_progress
from .datasets import Items, find_items
from .workers import made_samples
from .writer import Writer

_TICK = 0.1  # seconds between two reports of progress


def convert_samples(
    dataset: Any,
    target: str | os.PathLike[str],
    *,
    make: Callable[[Any], Any] | None,
    fields: Mapping[str, str | None] | None,
    seed: int | None,
    engine: str,
    num_threads: int | None,
    progress: Progress | None,
    **options: Any,
) -> Summary:
    """Convert the items of a dataset; arguments are those of :func:`stoker.convert`, ``options`` a writer's.

    Raises: As :func:`stoker.convert`.
    """
    if engine not in get_args(Engine):
        raise ConfigError(f"engine must be one of {', '.join(get_args(Engine))}, not {engine!r}")
    if engine == "ray" and make is None:
        raise ConfigError(
            "engine='ray' needs a function that makes the samples, as a dataset is read by one process",
            hint="give make=function, which is called with each item on the cluster",
        )
    items = find_items(dataset, fields)
    order = _order(items, seed)
    samples = _samples(items, make, engine, check_threads(num_threads), order)
    if options["classes"] is None and make is None:
        options["classes"] = items.classes
    with closing(samples):
        first = list(islice(samples, 1))  # processes start before the threads of a writer do
        with Writer(target, num_threads=num_threads, **options) as writer:
            numbered = zip(count() if order is None else order.tolist(), chain(first, samples), strict=False)
            _write(writer, numbered, items.number, progress or no_progress)
            return writer.close()


def _order(items: Items, seed: int | None) -> Any:
    if seed is None:
        return None
    if items.number is None or not items.by_index:
        raise ConfigError(
            "a seed shuffles items by their indices, and this dataset has none",
            hint="shuffle it before, or leave seed out: ImageLoader shuffles in any case",
        )
    return shuffled(np.arange(items.number), seed)


def _samples(
    items: Items, make: Callable[[Any], Any] | None, engine: str, workers: int, order: Any
) -> Generator[dict[str, Any] | None]:
    inputs = items.each(order)
    if make is not None:
        yield from made_samples(make, inputs, items, engine, workers)
    else:
        yield from map(items.sample, inputs)


def _write(
    writer: Writer, samples: Iterable[tuple[int, dict[str, Any] | None]], total: int | None, report: Progress
) -> None:
    """Write numbered samples, None for one that is left out, and report the progress."""
    shown, done = 0.0, 0
    for number, sample in samples:
        key = f"{number:08d}"
        if sample is None:
            writer.skip(key, "left out by make")
        else:
            writer.write(**{"key": key, **sample})
        done += 1
        if time.monotonic() - shown > _TICK:
            shown = time.monotonic()
            report(done, total or done, 0, "converting")
    report(done, total or done, 0, "publishing")
