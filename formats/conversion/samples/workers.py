"""Calls of the user's function that makes samples of inputs, in processes of this machine or on Ray.

Samples come back to the calling process in the order of their inputs: one writer stores them, so that the
dataset does not depend on the number of workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

from stoker.errors import EngineError, SourceError, StokerError

from ...worker_processes import worker_processes
from ..runners.ray_runner import cluster
from .datasets import Items
from .values.pictures import image_file, mask_file

Samples = list[dict[str, Any] | None]
Start = Callable[[list[Any], int], Callable[[], Samples]]

_CHUNK = 8  # inputs in one task
_AHEAD = 2  # tasks for each worker


def made_samples(
    make: Callable[[Any], Any], inputs: Iterator[Any], items: Items, engine: str, workers: int
) -> Iterator[dict[str, Any] | None]:
    """Yield the sample of each input; None for one that ``make`` leaves out."""
    run = partial(_make_chunk, make, items)
    with _processes(run, workers) if engine == "local" else _tasks(run, workers) as start:
        window: deque[Callable[[], Samples]] = deque()
        done = 0
        while chunk := list(islice(inputs, _CHUNK)):
            window.append(start(chunk, done))
            done += len(chunk)
            if len(window) > _AHEAD * workers:
                yield from window.popleft()()
        while window:
            yield from window.popleft()()


def _make_chunk(
    make: Callable[[Any], Any], items: Items, inputs: list[Any], first: int
) -> Samples | StokerError:
    """Make some samples on a worker. Stoker's errors are returned, because Ray would wrap raised ones."""
    try:
        return [_make_sample(make, items, value, first + i) for i, value in enumerate(inputs)]
    except StokerError as error:
        return error


def _make_sample(make: Callable[[Any], Any], items: Items, value: Any, number: int) -> dict[str, Any] | None:
    try:
        item = make(value)
    except Exception as error:
        raise SourceError(
            f"make raised {type(error).__name__} for input {number}: {error}",
            hint="return None for an input to leave it out",
        ) from error
    if item is None:
        return None
    sample = items.sample(item)
    key = str(sample.get("key") or number)
    # Encoded here: pixels take longer to send than files, and the writing process has its own work.
    sample["image"] = image_file(sample["image"], key)
    if sample.get("segmentation") is not None:
        sample["segmentation"] = mask_file(sample["segmentation"], key)
    return sample


def _checked(result: Samples | StokerError) -> Samples:
    if isinstance(result, StokerError):
        raise result
    return result


@contextmanager
def _processes(run: Callable[..., Samples | StokerError], workers: int) -> Generator[Start]:
    with worker_processes(
        run, workers, work="makes samples", sent="make, or an input,", fewer="num_threads=1"
    ) as submit:

        def start(inputs: list[Any], first: int) -> Callable[[], Samples]:
            future = submit(inputs, first)
            return lambda: _checked(future.result())

        yield start


@contextmanager
def _tasks(run: Callable[..., Samples | StokerError], workers: int) -> Generator[Start]:
    with cluster(workers) as ray:
        shared = ray.put(run)
        task = ray.remote(num_cpus=1)(_run_shared)
        running: set[Any] = set()

        def start(inputs: list[Any], first: int) -> Callable[[], Samples]:
            reference = task.remote(shared, inputs, first)
            running.add(reference)
            return partial(collect, reference)

        def collect(reference: Any) -> Samples:
            try:
                result = ray.get(reference)
            except ray.exceptions.RayError as error:
                raise EngineError(f"Ray could not make samples: {error}") from error
            running.discard(reference)
            return _checked(result)

        try:
            yield start
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _run_shared(
    run: Callable[[list[Any], int], Samples | StokerError], inputs: list[Any], first: int
) -> Samples | StokerError:
    return run(inputs, first)
