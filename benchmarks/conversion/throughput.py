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
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import stoker
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.photographs import PHOTOGRAPHS, photographs_in, replicate
from stoker.benchmarks.report.machine import allowed_cores

__all__ = ["COPY_LEAST", "RESIZE_LEAST", "Conversion", "measure"]

_SHORTER, _QUALITY = 256, 90
RESIZE_LEAST, COPY_LEAST = 2.0, 0.5


@dataclass(frozen=True)
class Conversion:
    """Images per second of four ways, as medians over the rounds.

    Attributes:
        images: Number of files in the source.
        bytes: Bytes of all files.
        resized: ``stoker.convert`` with ``resize="shorter=256", quality=90``.
        pillow: The same resize by a process pool with Pillow, which writes files.
        kept: ``stoker.convert`` that keeps the bytes, with checks and a sync to disk.
        copied: ``cp -r``.
    """

    images: int
    bytes: int
    resized: float
    pillow: float
    kept: float
    copied: float

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        return [
            f"conversion to short side {_SHORTER}: {self.resized:,.0f} images/s, a process pool with Pillow "
            f"{self.pillow:,.0f}: {self.resized / self.pillow:.2f} times (goal: at least {RESIZE_LEAST})",
            f"conversion that keeps the bytes: {self.kept:,.0f} images/s, cp -r {self.copied:,.0f}: "
            f"{self.kept / self.copied:.2f} times (goal: at least {COPY_LEAST})",
        ]

    def to_json(self) -> dict[str, Any]:
        """Return all figures as values that JSON has."""
        return asdict(self)


def measure(source: Path, copies: int, rounds: int = 5, num_threads: int | None = None) -> Conversion:
    """Measure the four ways of conversion in turns.

    Args:
        source: Folder with one directory for each class.
        copies: Number of files to convert, copies of the photographs of ``source``.
        rounds: Number of turns of each way, after an untimed one.
        num_threads: Number of threads or processes; by default one for each core that this process may use.
    """
    workers = num_threads or len(allowed_cores())
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        files, target = Path(scratch) / "files", Path(scratch) / "target"
        replicate(source, files, copies)
        ways: list[Callable[[], object]] = [
            lambda: stoker.convert(
                files, target, resize=f"shorter={_SHORTER}", quality=_QUALITY, num_threads=workers
            ),
            lambda: resize_with_pillow(files, target, workers),
            lambda: stoker.convert(files, target, num_threads=workers),
            lambda: subprocess.run(["cp", "-r", str(files), str(target)], check=True),
        ]
        seconds: list[list[float]] = [[] for _ in ways]
        for _ in range(rounds + 1):
            for way, taken in zip(ways, seconds, strict=True):
                taken.append(_timed(way))
                shutil.rmtree(target)
        rates = [copies / statistics.median(taken[1:]) for taken in seconds]
        size = sum(path.stat().st_size for path in photographs_in(files))
    return Conversion(copies, size, *rates)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


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
    parser = make_parser(__doc__)
    parser.add_argument("--source", type=Path, default=PHOTOGRAPHS)
    parser.add_argument("--copies", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    print("\n".join(measure(given.source, given.copies, given.rounds, given.threads).lines()))


if __name__ == "__main__":
    main()
