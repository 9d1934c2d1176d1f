"""The cost of a worker on this machine beside the loader's own engine, for photographs.

    python -m stoker.benchmarks.cluster.overhead DATASET [--rounds 7] [--images 8192] [--json FILE]

The worker has all cores, and the loader's own engine makes no batches. Turns with and without the worker
alternate. The program prints medians: images a second, and the CPU time of all processes by kind. It prints
the CPU time of Ray's idle processes apart, because it does not depend on the rate.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.comparison.usage import process_tree, usage_of_tree

from ..measuring import allowed_cores, describe, in_turns, make_parser, write_json

SIDE = 224
_BATCH = 64
_IDLE = 5.0  # seconds
_LEAD = 96  # batches: more than are ready or in flight
_SETTLING = 2.0  # seconds, for batches that are made ahead
DTYPES = ("uint8", "float32")
_KINDS = ("trainer", "worker", "ray")


def image_loader(dataset: Any, dtype: str, workers: stoker.RayWorkers | None) -> stoker.ImageLoader:
    """The loader that is measured; float32 is normalised."""
    return stoker.ImageLoader(
        dataset,
        batch_size=_BATCH,
        transforms=[
            RandomResizedCrop(SIDE),
            RandomHorizontalFlip(),
            *([Normalize()] if dtype == "float32" else []),
        ],
        dtype=dtype,  # type: ignore[arg-type]  # of DTYPES
        engine="native",
        num_threads=len(allowed_cores()),
        shuffle=True,
        last_batch="drop",
        reading=stoker.Reading(workers=workers),
    )


def _seconds_by_process() -> dict[str, float]:
    """CPU seconds of this process, of the worker, and of Ray's own processes."""
    seconds: dict[str, float] = defaultdict(float)
    for pid in process_tree(os.getpid()):
        try:
            name = Path(f"/proc/{pid}/cmdline").read_bytes()
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        kind = "trainer" if pid == os.getpid() else "worker" if b"BatchMaker" in name else "ray"
        seconds[kind] += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return dict(seconds)


def _turn(batches: Iterator[Any], count: int, idle: float) -> dict[str, float]:
    """Images a second of ``count`` batches, and milliseconds of CPU time for an image by kind of process.

    The turn first receives the batches that are ready, and at the end waits for those that are made ahead.
    ``idle`` seconds for each second are subtracted from the time of Ray's own processes.
    """
    for _ in islice(batches, _LEAD):
        pass
    before, began = _seconds_by_process(), perf_counter()
    images = sum(len(batch.image) for batch in islice(batches, count))
    seconds, after = perf_counter() - began, _seconds_by_process()
    sleep(_SETTLING)
    used = {kind: after[kind] - before.get(kind, 0.0) for kind in after}
    used["ray"] -= idle * seconds
    return {"rate": images / seconds, **{kind: 1000 * one / images for kind, one in used.items()}}


def measure(dataset: Path, images: int, rounds: int) -> dict[str, Any]:
    """Medians by dtype, without and with the worker, and the cores that Ray's idle processes take."""
    import ray

    ray.init(
        "local",
        num_cpus=len(allowed_cores()),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    long = stoker.mix([(stoker.open(dataset), 1)], samples=images)
    sleep(_IDLE)
    before = usage_of_tree(os.getpid()).cpu_seconds
    sleep(_IDLE)
    idle = (usage_of_tree(os.getpid()).cpu_seconds - before) / _IDLE
    return {"idle_cores": idle, **{dtype: _compare(long, dtype, rounds, idle) for dtype in DTYPES}}


def _compare(dataset: Any, dtype: str, rounds: int, idle: float) -> dict[str, Any]:
    loaders = {
        name: image_loader(dataset, dtype, workers)
        for name, workers in (("local", None), ("worker", stoker.RayWorkers(local=False)))
    }
    turns = in_turns(
        {
            name: partial(_turn, chain.from_iterable(repeat(loader)), len(loader), idle)
            for name, loader in loaders.items()
        },
        rounds,
    )
    for loader in loaders.values():
        loader.close()
    return {name: _medians(found, name) for name, found in turns.items()}


def _medians(turns: list[dict[str, float]], name: str) -> dict[str, float]:
    kinds = _KINDS if name == "worker" else ("trainer",)  # without a worker Ray does nothing
    parts = {kind: median(turn.get(kind, 0.0) for turn in turns) for kind in kinds}
    total = median(sum(turn.get(kind, 0.0) for kind in kinds) for turn in turns)
    return {"rate": median(turn["rate"] for turn in turns), "cpu_ms": total, **parts}


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "json", rounds=7)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--images", type=int, default=8192, help="images of a turn")
    args = parser.parse_args()
    measured = measure(args.dataset, args.images, args.rounds)
    print(f"Ray's idle processes take {measured['idle_cores']:.3f} cores")
    for dtype in DTYPES:
        for name, one in measured[dtype].items():
            parts = ", ".join(f"{kind} {one[kind]:.3f}" for kind in _KINDS if kind in one)
            print(f"{dtype} {name}: {one['rate']:,.0f} images/s, {one['cpu_ms']:.3f} ms an image ({parts})")
    write_json(args.json, {"machine": describe(allowed_cores()), "measured": measured})


if __name__ == "__main__":
    main()
