"""The scale of a billion samples and 1,024 ranks: opening, starting and resuming.

    python -m stoker.benchmarks.storage.scale [--rows 20000000] [--json benchmarks/results/scale.json]

The order of a billion samples needs no data and is computed in full. Opening is measured on an index of
``--rows`` rows, whose shards are holes, and extrapolated to a billion rows.
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
import pyarrow as pa

import stoker
from stoker._native import crc32c
from stoker.augment import RandomResizedCrop, compile_image
from stoker.formats.dataset.index import Index, write_index
from stoker.formats.dataset.manifest import INDEX_NAME, MANIFEST_NAME, IndexFile, Manifest, Shard
from stoker.formats.files import file_digest
from stoker.pipeline.commands.console import out, table
from stoker.pipeline.order.orders import BlockShuffle, FullShuffle, Order
from stoker.pipeline.order.schedule import OrderedSteps

from ..comparison.disk import evict
from ..measuring import allowed_cores, describe, make_parser, run_module, write_json

BILLION = 1_000_000_000
RANKS = 1024
BATCH = 64
SAMPLE_BYTES = 110_000  # the mean of the photographs of ImageNet
SHARD_BYTES = 4_000_000_000  # the default, 256 MB, would make more shards than a process may map
SMALL_SHARD_BYTES = 16_000_000  # for the cost of a shard


_KEY = "samples/000000000000.jpg"
_CLASSES = 1000


def make_synthetic(folder: Path, rows: int, sample_bytes: int, shard_bytes: int) -> Path:
    """Write the manifest and the index of a dataset whose payloads are ``sample_bytes`` zeros."""
    folder.mkdir(parents=True)
    per_shard = shard_bytes // sample_bytes
    row = np.arange(rows, dtype=np.int64)
    columns = {
        "shard": (row // per_shard).astype(np.int32),
        "record": row % per_shard,
        "offset": row % per_shard * sample_bytes,
        "length": np.full(rows, sample_bytes, np.int64),
        "crc": np.full(rows, crc32c(bytes(sample_bytes)), np.uint32),
        "key": _keys(row),
        "codec": np.zeros(rows, np.uint8),
        "height": np.full(rows, 1, np.int32),
        "width": np.full(rows, sample_bytes // 3, np.int32),
        "orientation": np.ones(rows, np.uint8),
        "label": row % _CLASSES,
    }
    path = folder / INDEX_NAME
    write_index(path, columns)
    shards = []
    count = -(-rows // per_shard)
    for number in range(count):
        records = min(per_shard, rows - number * per_shard)
        name = f"shard-{number:05d}-of-{count:05d}.tfrecord"
        with (folder / name).open("xb") as file:
            file.truncate(records * sample_bytes)
        # No benchmark compares this digest.
        shards.append(Shard(name, records * sample_bytes, records, "crc32c:00000000"))
    manifest = Manifest(
        container="tfrecord",
        sample_type="image",
        columns=Index.open(path).types,
        shards=tuple(shards),
        index=IndexFile(rows, path.stat().st_size, file_digest(path)),
        classes=tuple(f"class {number}" for number in range(_CLASSES)),
    )
    (folder / MANIFEST_NAME).write_text(manifest.to_json())
    return folder


def _keys(row: npt.NDArray[np.int64]) -> pa.Array:
    """Return names of one length, made without a Python string for each."""
    text = np.tile(np.frombuffer(_KEY.encode(), np.uint8), (len(row), 1))
    first = _KEY.index("0")
    for digit in range(12):
        text[:, first + 11 - digit] = row // 10**digit % 10 + ord("0")
    starts = np.arange(len(row) + 1, dtype=np.int64) * len(_KEY)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.large_string(), len(row), buffers)


def measure_order(samples: int = BILLION, ranks: int = RANKS) -> list[dict[str, Any]]:
    """Return seconds of starting an epoch, of resuming and of a batch, and bytes, for each order."""
    found = []
    for order in _orders(samples):
        middle = OrderedSteps(
            samples, BATCH, ranks - 1, ranks, start=samples // 2 // (BATCH * ranks) * BATCH * ranks
        )
        start_seconds, start_bytes = _timed(order, OrderedSteps(samples, BATCH, ranks - 1, ranks))
        resume_seconds, resume_bytes = _timed(order, middle)
        began = time.perf_counter()
        steps = 200
        for step in range(steps):
            _rows(order, middle, step)
        found.append(
            {
                "order": type(order).__name__,
                "start_seconds": start_seconds,
                "resume_seconds": resume_seconds,
                "batch_seconds": (time.perf_counter() - began) / steps,
                "bytes": max(start_bytes, resume_bytes),
            }
        )
    return found


def _orders(samples: int) -> tuple[Order, ...]:
    return FullShuffle(samples, 1), BlockShuffle(samples, 1)


def _rows(order: Order, schedule: OrderedSteps, step: int) -> npt.NDArray[np.int64]:
    return order.positions(3, schedule.draws(step)[0])


def _timed(order: Order, schedule: OrderedSteps) -> tuple[float, int]:
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
    folder = make_synthetic(scratch / f"{rows}-{shard_bytes}", rows, SAMPLE_BYTES, shard_bytes)
    runs = []
    for _ in range(3):
        evict([folder / "index.arrow"])
        runs.append(run_module("stoker.benchmarks.storage.scale", "--child", folder))
    size = (folder / "index.arrow").stat().st_size
    return {"rows": rows, "index_bytes": size, **{name: min(one[name] for one in runs) for name in runs[0]}}


def _child(folder: Path) -> dict[str, Any]:
    """Return the seconds of each step, and the memory of this process without that of imports."""
    from stoker.pipeline.engines.native import NativeEngine  # noqa: F401 - imported before the measurement

    before = _private_bytes()
    marks = [time.perf_counter()]
    dataset = stoker.open(folder)
    marks.append(time.perf_counter())
    options: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "ranks": stoker.Ranks(5, RANKS)}
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
    schedule = OrderedSteps(len(dataset), BATCH, 5, RANKS, start=start)
    samples = dataset.samples(_rows(FullShuffle(len(dataset), 0), schedule, 0))
    compile_image([RandomResizedCrop(224)]).draw(samples.height, samples.width, samples.row, 0, 0)


def _private_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


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


def _show(title: str, columns: list[dict[str, Any]]) -> None:
    """Print a row for each quantity, and a column for each measurement, named by its first value."""
    first, *names = columns[0]
    printed = table(title, *(f"{one[first]:,}" if first == "rows" else one[first] for one in columns))
    for name in names:
        values = (one.get(name) for one in columns)
        printed.add_row(name, *("" if value is None else f"{value:,.5g}" for value in values))
    out.print(printed)


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
    _show(f"order of {BILLION:,} samples, {RANKS:,} ranks", document["order"])
    with tempfile.TemporaryDirectory(prefix="stoker-scale-") as scratch:
        sizes = [
            (args.rows // 10, SHARD_BYTES),
            (args.rows // 10, SMALL_SHARD_BYTES),
            (args.rows, SHARD_BYTES),
        ]
        measured = [measure_rows(*size, Path(scratch)) for size in sizes]
    document["rows"] = [*measured, _extrapolate(*measured)]
    _show("opening and starting", document["rows"])
    write_json(args.json, document)


if __name__ == "__main__":
    main()
