"""The throughput of conversion, beside a process pool with Pillow and beside ``cp -r``.

python -m stoker.benchmarks.conversion.throughput [--source DIR] [--copies N]
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import stoker
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.photographs import photographs_in, replicate
from stoker.benchmarks.costs import in_turns
from stoker.benchmarks.report.machine import allowed_cores

__all__ = ["COPY_LEAST", "RESIZE_LEAST", "Conversion", "measure"]

_SHORTER, _QUALITY = 256, 90
RESIZE_LEAST, COPY_LEAST = 2.0, 0.5


@dataclass(frozen=True)
class Conversion:
    """Images per second of four ways, as medians over the rounds."""

    images: int  # Number of files in the source
    bytes: int  # Bytes of all files
    resized: float  # ``stoker.convert`` with ``resize="shorter=256", quality=90``
    pillow: float  # The same resize by a process pool with Pillow, which writes files
    kept: float  # ``stoker.convert`` that keeps the bytes, with checks and a sync to disk
    copied: float  # ``cp -r``

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        return [
            f"conversion to short side {_SHORTER}: {self.resized:,.0f} images/s, a process pool with Pillow "
            f"{self.pillow:,.0f}: {self.resized / self.pillow:.2f} times (goal: at least {RESIZE_LEAST})",
            f"conversion that keeps the bytes: {self.kept:,.0f} images/s, cp -r {self.copied:,.0f}: "
            f"{self.kept / self.copied:.2f} times (goal: at least {COPY_LEAST})",
        ]


def measure(source: Path, copies: int, rounds: int = 5, num_threads: int | None = None) -> Conversion:
    """Measure the four ways of conversion in turns."""
    workers = num_threads or len(allowed_cores())
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        files, target = Path(scratch) / "files", Path(scratch) / "target"
        replicate(source, files, copies)
        ways: dict[str, Callable[[], object]] = {
            "resized": lambda: stoker.convert(
                files, target, resize=f"shorter={_SHORTER}", quality=_QUALITY, num_threads=workers
            ),
            "pillow": lambda: resize_with_pillow(files, target, workers),
            "kept": lambda: stoker.convert(files, target, num_threads=workers),
            "copied": lambda: subprocess.run(["cp", "-r", str(files), str(target)], check=True),
        }
        runs = {name: partial(_timed, way, target) for name, way in ways.items()}
        rates = {name: copies / statistics.median(taken) for name, taken in in_turns(runs, rounds).items()}
        size = sum(path.stat().st_size for path in photographs_in(files))
    return Conversion(copies, size, **rates)


def _timed(work: Callable[[], object], target: Path) -> float:
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    shutil.rmtree(target)
    return seconds


def resize_with_pillow(files: Path, target: Path, workers: int) -> None:
    """Resize every photograph to a short side of 256 with Pillow in worker processes."""
    for folder in files.iterdir():
        (target / folder.name).mkdir(parents=True)
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for _ in pool.imap_unordered(partial(_resize, target=target), photographs_in(files), chunksize=16):
            pass


def _resize(path: Path, target: Path) -> None:
    from PIL import Image

    with Image.open(path) as image:
        factor = _SHORTER / min(image.size)
        size = (round(image.width * factor), round(image.height * factor))
        resized = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
    resized.save(target / path.parent.name / path.name, quality=_QUALITY)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "threads", rounds=5, copies=2048)
    args = parser.parse_args()
    print("\n".join(measure(args.source, args.copies, args.rounds, args.threads).lines()))


if __name__ == "__main__":
    main()
