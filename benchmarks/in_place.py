"""The speed of data read in place, beside the same images in Stoker's own shards.

    python -m stoker.benchmarks.in_place [--source PHOTOS] [--work DIR] [--copies N]

Every form in ``FORMS`` holds the same files of photographs. Loaders read them in turns, with the page cache
warm. Conversions of every form in ``SOURCES`` run in turns, too. CPU seconds show the cost on a busy machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
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

from .measuring import Cost, Epoch, allowed_cores, costs_in_turns, make_parser, show_costs

_SHARDS = 4


def _own_shards(photographs: Path, work: Path) -> Path:
    stoker.convert(photographs, work / "own", overwrite=True, storage=stoker.ImageStorage(shards=_SHARDS))
    return work / "own"


FORMS: Mapping[str, Callable[[Path, Path], Path]] = {
    "own shards": _own_shards,
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


def measure_reading(photographs: Path, work: Path, rounds: int = 5) -> dict[str, Cost]:
    """Return the cost of an image of each form."""
    turns = {}
    for name, make in FORMS.items():
        loader = stoker.ImageLoader(
            make(photographs, work),
            batch_size=64,
            transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()],
            shuffle=True,
            num_threads=len(allowed_cores()),
            columns=("image",),
        )
        turns[name] = Epoch(loader)
    return costs_in_turns(turns, rounds)


def measure_conversion(photographs: Path, work: Path, rounds: int = 5) -> dict[str, Cost]:
    """Return the cost of an image in a conversion that keeps the bytes of each source."""
    sources = {name: make(photographs, work) for name, make in SOURCES.items()}
    turns = {name: partial(_convert, source, work / "converted") for name, source in sources.items()}
    return costs_in_turns(turns, rounds)


def _convert(source: Path, target: Path) -> int:
    return stoker.convert(source, target, overwrite=True).written


def main() -> None:
    """Run from the command line."""
    args = make_parser(__doc__, "source", "scratch", rounds=5, copies=2048).parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-in-place-", dir=args.work) as scratch:
        work, photographs = Path(scratch), Path(scratch) / "photographs"
        replicate(args.source, photographs, args.copies)
        show_costs(measure_reading(photographs, work, args.rounds), "reading")
        show_costs(measure_conversion(photographs, work, args.rounds), "conversion")


if __name__ == "__main__":
    main()
