"""The speed of data read in place, beside the same images in Stoker's own shards.

    python -m stoker.benchmarks.in_place [--source PHOTOS] [--work DIR] [--copies N]

Every form in ``FORMS`` holds the same files of photographs. Loaders read them in turns, with the page cache
warm. Conversions of every form in ``SOURCES`` run in turns, too. CPU seconds show the cost on a busy machine.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.comparison.photographs import replicate
from stoker.benchmarks.foreign_shards import (
    lmdb_index,
    mds_index,
    parquet_files,
    recordio_index,
    tar_archives,
    tar_index,
)

from .measuring import allowed_cores, discard, in_turns, make_parser

_OWN = "own shards"
_SHARDS = 4


@dataclass(frozen=True)
class Rate:
    """The rate and the cost of one form.

    Over several rounds, images a second are the median. CPU seconds are the least, because other programs on
    the same cores only add to them.
    """

    images_per_second: float  # Images a second of wall time
    cpu_seconds: float  # CPU seconds of the process for a thousand images


def _own_shards(photographs: Path, work: Path) -> Path:
    stoker.convert(photographs, work / "own", overwrite=True, storage=stoker.ImageStorage(shards=_SHARDS))
    return work / "own"


FORMS: Mapping[str, Callable[[Path, Path], Path]] = {
    _OWN: _own_shards,
    "folder": lambda photographs, work: photographs,
    "WebDataset tar": tar_index,
    "MXNet RecordIO": recordio_index,
    "Mosaic MDS": mds_index,
    "LMDB of images": lmdb_index,
}
"""By name: makes the form of a folder of photographs in a work folder, and returns what loaders open."""


SOURCES: Mapping[str, Callable[[Path, Path], Path]] = {
    "folder": lambda photographs, work: photographs,
    "Parquet": parquet_files,
    "WebDataset tar": tar_archives,
}
"""By name: makes the form, and returns what conversions read. Others are compared with the first."""


def measure_reading(photographs: Path, work: Path, rounds: int = 5) -> dict[str, Rate]:
    """Return the rate of a loader of each form, in turns after an untimed pass of each."""
    loaders = {
        name: stoker.ImageLoader(
            make(photographs, work),
            batch_size=64,
            transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()],
            shuffle=True,
            num_threads=len(allowed_cores()),
            columns=("image",),
        )
        for name, make in FORMS.items()
    }
    turns = in_turns({name: partial(_read, loader) for name, loader in loaders.items()}, rounds)
    for loader in loaders.values():
        loader.close()
    return _of_rounds(turns)


def measure_conversion(photographs: Path, work: Path, rounds: int = 5) -> dict[str, Rate]:
    """Return the rate of a conversion that keeps the bytes of each source, in turns, likewise."""
    sources = {name: make(photographs, work) for name, make in SOURCES.items()}
    runs = {name: partial(_convert, source, work / "converted") for name, source in sources.items()}
    return _of_rounds(in_turns(runs, rounds))


def _read(loader: stoker.ImageLoader) -> Rate:
    discard(loader)
    return _timed(lambda: sum(len(batch.image) for batch in loader))


def _convert(source: Path, target: Path) -> Rate:
    shutil.rmtree(target, ignore_errors=True)
    return _timed(lambda: stoker.convert(source, target).written)


def _timed(work: Callable[[], int]) -> Rate:
    wall, cpu = time.perf_counter(), time.process_time()
    images = work()
    seconds = time.perf_counter() - wall
    return Rate(images / seconds, 1000 * (time.process_time() - cpu) / images)


def _of_rounds(measured: Mapping[str, list[Rate]]) -> dict[str, Rate]:
    return {
        name: Rate(
            statistics.median(rate.images_per_second for rate in rates),
            min(rate.cpu_seconds for rate in rates),
        )
        for name, rates in measured.items()
    }


def _table(title: str, rates: Mapping[str, Rate]) -> str:
    first = next(iter(rates.values()))
    lines = [f"{title:<24}{'images/s':>10}{'times':>8}{'CPU s / 1,000':>16}{'times':>8}"]
    for name, rate in rates.items():
        wall = rate.images_per_second / first.images_per_second
        cpu = first.cpu_seconds / rate.cpu_seconds
        lines.append(
            f"{name:<24}{rate.images_per_second:>10,.0f}{wall:>8.2f}{rate.cpu_seconds:>16.3f}{cpu:>8.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run from the command line."""
    args = make_parser(__doc__, "source", "scratch", rounds=5, copies=2048).parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-in-place-", dir=args.work) as scratch:
        work, photographs = Path(scratch), Path(scratch) / "photographs"
        replicate(args.source, photographs, args.copies)
        print(_table("reading", measure_reading(photographs, work, args.rounds)))
        print(_table("conversion", measure_conversion(photographs, work, args.rounds)))


if __name__ == "__main__":
    main()
