"""The scale of a billion samples and 1,024 ranks: opening, starting, resuming, reading ahead.

    python -m stoker.benchmarks.storage.scale [--rows 20000000] [--json benchmarks/results/scale.json]

The order of a billion samples needs no data and is computed in full. Opening is measured on an index of
``--rows`` rows, whose shards are holes, and extrapolated to a billion rows. Reading ahead is simulated for a
machine with eight of 1,024 ranks; the simulation is compared with a measurement behind an injected latency.
This takes about two minutes and 2 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import stoker
from stoker.augment import RandomResizedCrop, compile_image
from stoker.benchmarks.arguments import make_parser, run_module, write_json
from stoker.benchmarks.comparison.parts.cold import evict
from stoker.benchmarks.report.machine import allowed_cores, describe
from stoker.benchmarks.storage.model import Data, Storage, measure, simulate
from stoker.benchmarks.storage.synthetic import make_dataset
from stoker.benchmarks.storage.tables import print_order, print_reading, print_rows, print_staging
from stoker.pipeline.order.epoch_order import BlockShuffle, FullShuffle, Order
from stoker.pipeline.order.rank_draws import Schedule

BILLION = 1_000_000_000
RANKS = 1024
RANKS_PER_MACHINE = 8
BATCH = 64
SAMPLE_BYTES = 110_000  # the mean of the photographs of ImageNet
SHARD_BYTES = 4_000_000_000  # the default, 256 MB, would make more shards than a process may map
SMALL_SHARD_BYTES = 16_000_000  # for the cost of a shard
STEP_SECONDS = 0.25  # 256 samples per second of a rank
DEPTHS = (1, 4, 16, 64)
LATENCIES = (0.01, 0.1)


def measure_order(samples: int = BILLION, ranks: int = RANKS) -> list[dict[str, Any]]:
    """Return seconds of starting an epoch, of resuming and of a batch, and bytes, for each order."""
    figures = []
    for order in _orders(samples):
        middle = Schedule(
            samples, BATCH, ranks - 1, ranks, start=samples // 2 // (BATCH * ranks) * BATCH * ranks
        )
        start_seconds, start_bytes = _timed(order, Schedule(samples, BATCH, ranks - 1, ranks))
        resume_seconds, resume_bytes = _timed(order, middle)
        began = time.perf_counter()
        steps = 200
        for step in range(steps):
            _rows(order, middle, step)
        figures.append(
            {
                "order": type(order).__name__,
                "start_seconds": start_seconds,
                "resume_seconds": resume_seconds,
                "batch_seconds": (time.perf_counter() - began) / steps,
                "bytes": max(start_bytes, resume_bytes),
            }
        )
    return figures


def _orders(samples: int) -> tuple[Order, ...]:
    return FullShuffle(samples, 1), BlockShuffle(samples, 1)


def _rows(order: Order, schedule: Schedule, step: int) -> npt.NDArray[np.int64]:
    return order.positions(3, schedule.draws(step)[0])


def _timed(order: Order, schedule: Schedule) -> tuple[float, int]:
    """Return the least seconds of five first batches, and the peak of the bytes of one."""
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        _rows(order, schedule, 0)
        seconds.append(time.perf_counter() - began)
    tracemalloc.start()
    _rows(order, schedule, 0)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(seconds), most


def measure_rows(rows: int, shard_bytes: int, scratch: Path) -> dict[str, Any]:
    """Return the times of opening a dataset, making a loader, its first batch, and resuming.

    Each time is the least of three new processes, which start without the index in the page cache.
    """
    folder = make_dataset(scratch / f"{rows}-{shard_bytes}", rows, SAMPLE_BYTES, shard_bytes)
    runs = []
    for _ in range(3):
        evict([folder / "index.arrow"])
        runs.append(run_module("stoker.benchmarks.storage.scale", "--child", folder))
    size = (folder / "index.arrow").stat().st_size
    return {"rows": rows, "index_bytes": size, **{name: min(one[name] for one in runs) for name in runs[0]}}


def _child(folder: Path) -> dict[str, Any]:
    """Return the seconds of each step, and the memory of this process without that of imports."""
    from stoker.pipeline.engines.native.engine import NativeEngine  # noqa: F401 - imported before the measurement

    before = _private_bytes()
    marks = [time.perf_counter()]
    dataset = stoker.open(folder)
    marks.append(time.perf_counter())
    options: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "rank": 5, "world_size": RANKS}
    options |= {"transforms": [RandomResizedCrop(224)], "engine": "native"}
    with stoker.ImageLoader(dataset, **options) as loader:
        marks.append(time.perf_counter())
        _decide_batch(dataset, 0)
        marks.append(time.perf_counter())
        state = {**loader.state_dict(), "position": len(dataset) // 2}
        loader.load_state_dict(state)
        _decide_batch(dataset, len(dataset) // 2)
        marks.append(time.perf_counter())
        memory = _private_bytes() - before
    names = ("open_seconds", "loader_seconds", "first_batch_seconds", "resume_seconds")
    return {
        **dict(zip(names, np.diff(marks).tolist(), strict=True)),
        "private_bytes": memory,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "shards": len(dataset.manifest.shards),
    }


def _decide_batch(dataset: stoker.Dataset, start: int) -> None:
    """Run the work of a batch before its bytes are read."""
    schedule = Schedule(len(dataset), BATCH, 5, RANKS, start=start)
    samples = dataset.samples(_rows(FullShuffle(len(dataset), 0), schedule, 0))
    compile_image([RandomResizedCrop(224)]).draw(samples.height, samples.width, samples.row, 0, 0)


def _private_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def measure_reading(samples: int = BILLION, ranks: int = RANKS, steps: int = 200) -> list[dict[str, Any]]:
    """Return the simulated share of time that a machine with eight of the ranks waits, by depth."""
    data = Data(SAMPLE_BYTES)
    figures = []
    for order in _orders(samples):
        for world in (RANKS_PER_MACHINE, ranks):
            batches = _machine_batches(order, world, samples, steps)
            for latency in LATENCIES:
                for connections in (64, 256):
                    stalls = [
                        simulate(batches, data, Storage(latency, connections), STEP_SECONDS, depth)
                        for depth in DEPTHS
                    ]
                    figures.append(
                        {
                            "order": type(order).__name__,
                            "ranks": world,
                            "latency": latency,
                            "connections": connections,
                            "stall": dict(zip(map(str, DEPTHS), stalls, strict=True)),
                        }
                    )
    return figures


def _machine_batches(order: Order, world: int, samples: int, steps: int) -> list[npt.NDArray[np.int64]]:
    """Return the rows that the ranks of one machine, which share a cache, read at each step."""
    ranks = [Schedule(samples, BATCH, rank, world) for rank in range(RANKS_PER_MACHINE)]
    return [np.concatenate([_rows(order, rank, step) for rank in ranks]) for step in range(steps)]


def measure_staging(samples: int = 8192, steps: int = 40) -> list[dict[str, Any]]:
    """Return simulated and measured shares of waiting, for one rank and a small dataset."""
    data, step_seconds = Data(30_000, 64_000_000), 0.05
    figures = []
    for order in (FullShuffle(samples, 1), BlockShuffle(samples, 1, block=256, window=4)):
        schedule = Schedule(samples, BATCH)
        batches = [_rows(order, schedule, step) for step in range(steps)]
        for latency in LATENCIES:
            for depth in (1, 16):
                storage = Storage(latency, 64, bytes_per_second=5e9)
                figures.append(
                    {
                        "order": type(order).__name__,
                        "latency": latency,
                        "depth": depth,
                        "simulated": simulate(batches, data, storage, step_seconds, depth),
                        "measured": measure(batches, data, storage, step_seconds, depth),
                    }
                )
    return figures


def _extrapolate(few: dict[str, Any], many: dict[str, Any], large: dict[str, Any]) -> dict[str, Any]:
    """Return an extrapolation to a billion rows, from measurements that differ in shards or rows.

    Times of batches are not extrapolated: a batch reads the same number of rows of a larger index, and the
    number of its pages in the page cache is unknown.
    """
    shards = -(-BILLION * SAMPLE_BYTES // SHARD_BYTES)
    line: dict[str, Any] = {"rows": BILLION, "shards": shards, "extrapolated": True}
    line["index_bytes"] = large["index_bytes"] * BILLION // large["rows"]
    for name in ("open_seconds", "loader_seconds", "private_bytes"):
        per_shard = (many[name] - few[name]) / (many["shards"] - few["shards"])
        line[name] = large[name] + per_shard * (shards - large["shards"])
    return line


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "json")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(_child(args.child)))
        return
    document: dict[str, Any] = {"machine": describe(allowed_cores()), "order": measure_order()}
    print_order(document["order"], BILLION, RANKS)
    with tempfile.TemporaryDirectory(prefix="stoker-scale-") as scratch:
        sizes = [
            (args.rows // 10, SHARD_BYTES),
            (args.rows // 10, SMALL_SHARD_BYTES),
            (args.rows, SHARD_BYTES),
        ]
        measured = [measure_rows(*size, Path(scratch)) for size in sizes]
    document["rows"] = [*measured, _extrapolate(*measured)]
    print_rows(document["rows"])
    document["reading"] = measure_reading()
    print_reading(document["reading"])
    document["staging"] = measure_staging()
    print_staging(document["staging"])
    write_json(args.json, document)


if __name__ == "__main__":
    main()
