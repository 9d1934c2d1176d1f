"""The throughput of ``stoker.Writer`` beside ``stoker.convert`` of the same folder.

python -m stoker.benchmarks.conversion.writing [--source DIR] [--copies N]
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import stoker
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.photographs import PHOTOGRAPHS, replicate
from stoker.benchmarks.report.machine import allowed_cores

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LEAST", "measure"]

LEAST = 0.8


def measure(source: Path, copies: int, rounds: int = 5, num_threads: int | None = None) -> dict[str, float]:
    """Return the images per second of each way, as medians over the rounds; the ways take turns.

    Args:
        source: Folder with one directory for each class.
        copies: Number of files, copies of the photographs of ``source``.
        rounds: Number of turns of each way, after an untimed one.
        num_threads: Number of threads; by default one for each core that this process may use.
    """
    threads = num_threads or len(allowed_cores())
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        files, target = Path(scratch) / "files", Path(scratch) / "target"
        replicate(source, files, copies)
        paths = sorted(path for path in files.rglob("*") if path.is_file())
        classes = sorted({path.parent.name for path in paths})

        def convert() -> None:
            stoker.convert(files, target, num_threads=threads)

        def write_paths() -> None:
            with stoker.Writer(target, classes=classes, num_threads=threads) as writer:
                for path in paths:
                    writer.write(path, label=path.parent.name)

        def write_bytes() -> None:
            with stoker.Writer(target, classes=classes, num_threads=threads) as writer:
                for path in paths:
                    writer.write(path.read_bytes(), label=path.parent.name)

        ways: dict[str, Callable[[], None]] = {
            "convert": convert,
            "Writer, paths": write_paths,
            "Writer, bytes": write_bytes,
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds + 1):
            for name, way in ways.items():
                began = time.perf_counter()
                way()
                seconds[name].append(time.perf_counter() - began)
                shutil.rmtree(target)
    return {name: copies / statistics.median(taken[1:]) for name, taken in seconds.items()}


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--source", type=Path, default=PHOTOGRAPHS)
    parser.add_argument("--copies", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    rates = measure(given.source, given.copies, given.rounds, given.threads)
    for name, rate in rates.items():
        share = rate / rates["convert"]
        print(f"{name}: {rate:,.0f} images/s, {share:.2f} of convert (goal: at least {LEAST})")


if __name__ == "__main__":
    main()
