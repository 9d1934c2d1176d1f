"""The rate of Stoker's JPEG decoder over that of libjpeg-turbo, for random resized crops or whole images.

    python -m stoker.benchmarks.decoding.jpeg_decoders PHOTOS [--whole | --size 224 --scale 0.08 1]

One thread decodes the regions that RandomResizedCrop(224) draws, in two processes that take turns: one with
``STOKER_JPEG=turbo``. ``--size 96 --scale 0.05 0.4`` are the small views of DINO; with ``--size 64`` most
regions are decoded at half their size. ``stoker.benchmarks.comparison.photographs`` makes photographs like
ImageNet's. The result is printed as JSON: medians of microseconds of processor time an image.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from stoker import _native
from stoker.augment import RandomResizedCrop, Resize, Transform

from ..measuring import make_parser
from .native_ceiling import Encoded, PreparedBatches, as_is, shorter_256

_LEAST = 256


def marked(data: bytes) -> Encoded:
    """Return the file with restart markers."""
    payload, reason, _ = _native.mark_restarts(data)
    if payload is None:
        raise ValueError(reason)
    return as_is(payload)


WORKLOADS: dict[str, Callable[[bytes], Encoded]] = {
    "as-is": as_is,
    "restart-marked": marked,
    "shorter-256": shorter_256,
    "shorter-256-restart-marked": lambda data: marked(shorter_256(data).payload),
}


def work(files: list[Path], workload: str, crop: Transform) -> None:
    """Print the processor time of a pass for each line of standard input."""
    with tempfile.TemporaryDirectory() as folder:
        batches = PreparedBatches(
            [WORKLOADS[workload](file.read_bytes()) for file in files], _LEAST, Path(folder), crop
        )
        pool, buffers = _native.Pool(1), _native.BufferPool(4)
        batches.run(pool, buffers, decode_only=True)
        print(_native.jpeg_decoder(), flush=True)
        for _ in sys.stdin:
            seconds = batches.run(pool, buffers, decode_only=True).cpu_seconds
            print(1e6 * seconds / batches.images, flush=True)


def measure(photos: Path, workload: str, rounds: int, options: list[str]) -> dict[str, float]:
    """Return the medians of both decoders, and of the ratios of their rounds."""
    command = [sys.executable, "-m", __spec__.name, str(photos), "--workloads", workload, "--work", *options]
    workers = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "STOKER_JPEG": decoder},
            text=True,
        )
        for decoder in ("turbo", "stoker")
    ]

    def ask(worker: subprocess.Popen[str]) -> float:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
        return float(worker.stdout.readline())

    names = [worker.stdout.readline().strip() for worker in workers if worker.stdout is not None]
    times = [[ask(worker) for worker in workers] for _ in range(rounds)]
    for worker in workers:
        worker.communicate()
    milliseconds = {
        name: round(statistics.median(column), 1)
        for name, column in zip(names, zip(*times, strict=True), strict=True)
    }
    return {**milliseconds, "ratio": round(statistics.median(turbo / own for turbo, own in times), 2)}


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, rounds=5)
    parser.add_argument("photos", type=Path, help="a folder of JPEG files, at any depth")
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--whole", action="store_true", help="decode whole images")
    parser.add_argument("--size", type=int, default=224, help="pixels of a side of the output")
    parser.add_argument(
        "--scale", type=float, nargs=2, default=(0.08, 1.0), help="share of the area of a region"
    )
    parser.add_argument("--work", action="store_true", help="be one of the processes that take turns")
    args = parser.parse_args()
    if args.work:
        size = (args.size, args.size)
        crop = Resize(size) if args.whole else RandomResizedCrop(args.size, scale=tuple(args.scale))
        work(sorted(args.photos.rglob("*.jpg")), args.workloads[0], crop)
        return
    options = ["--size", str(args.size), "--scale", *map(str, args.scale), *["--whole"] * args.whole]
    results = {name: measure(args.photos, name, args.rounds, options) for name in args.workloads}
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
