"""The speed of data read in place, beside the same images in Stoker's own shards.

    python -m stoker.benchmarks.in_place [--source PHOTOS] [--work DIR] [--copies N]

Every form in ``FORMS`` holds the same files of photographs. Loaders read them in turns, with the page cache
warm. Conversions of every form in ``SOURCES`` run in turns, too. The machine may do other work meanwhile: CPU
seconds tell what a form costs where images a second waver.
"""

from __future__ import annotations

import io
import shutil
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.photographs import PHOTOGRAPHS, photographs_in, replicate
from stoker.benchmarks.foreign_shards import lmdb_index, mds_index, recordio_index
from stoker.benchmarks.report.machine import allowed_cores
from stoker.formats.external.external_index import index

__all__ = [
    "FORMS",
    "SOURCES",
    "Rate",
    "measure_conversion",
    "measure_reading",
    "parquet_files",
    "tar_archives",
]

_OWN = "own shards"
_SHARDS = 4


@dataclass(frozen=True)
class Rate:
    """What one form costs.

    Attributes:
        images_per_second: Images a second of wall time.
        cpu_seconds: CPU seconds of the process for a thousand images.

    Of several rounds, images a second are a median. CPU seconds are the least, because other programs on the
    same cores only add to them.
    """

    images_per_second: float
    cpu_seconds: float


def _own_shards(photographs: Path, work: Path) -> Path:
    stoker.convert(photographs, work / "own", shards=_SHARDS, overwrite=True)
    return work / "own"


def tar_archives(photographs: Path, work: Path) -> Path:
    """Write archives as WebDataset's writer does: an image and its class, one after the other."""
    folder = work / "tars"
    folder.mkdir(exist_ok=True)
    paths = photographs_in(photographs)
    numbers = {name: number for number, name in enumerate(sorted({path.parent.name for path in paths}))}
    for shard in range(_SHARDS):
        with tarfile.open(folder / f"train-{shard:06d}.tar", "w") as archive:
            for path in paths[shard * len(paths) // _SHARDS : (shard + 1) * len(paths) // _SHARDS]:
                key = f"{path.parent.name}/{path.stem}"
                _add(archive, f"{key}.cls", b"%d" % numbers[path.parent.name])
                _add(archive, f"{key}.jpg", path.read_bytes())
    return folder


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _tar_index(photographs: Path, work: Path) -> Path:
    shutil.rmtree(work / "tar-index", ignore_errors=True)
    index([tar_archives(photographs, work)], work / "tar-index")
    return work / "tar-index"


FORMS: Mapping[str, Callable[[Path, Path], Path]] = {
    _OWN: _own_shards,
    "folder": lambda photographs, work: photographs,
    "WebDataset tar": _tar_index,
    "MXNet RecordIO": recordio_index,
    "Mosaic MDS": mds_index,
    "LMDB of images": lmdb_index,
}
"""By name: makes the form of a folder of photographs in a work folder, and returns what loaders open."""


def parquet_files(photographs: Path, work: Path) -> Path:
    """Write Parquet files as Hugging Face's datasets does, with a hundred images in a row group."""
    folder = work / "parquet"
    folder.mkdir(exist_ok=True)
    paths = photographs_in(photographs)
    for shard in range(_SHARDS):
        some = paths[shard * len(paths) // _SHARDS : (shard + 1) * len(paths) // _SHARDS]
        images = [{"bytes": path.read_bytes(), "path": path.name} for path in some]
        table = pa.table({"image": images, "label": [path.parent.name for path in some]})
        pq.write_table(table, folder / f"train-{shard:05d}.parquet", row_group_size=100)
    return folder


SOURCES: Mapping[str, Callable[[Path, Path], Path]] = {
    "folder": lambda photographs, work: photographs,
    "Parquet": parquet_files,
    "WebDataset tar": tar_archives,
}
"""By name: makes the form, and returns what conversions read. Others are compared with the first."""


def measure_reading(photographs: Path, work: Path, rounds: int = 5, size: int = 224) -> dict[str, Rate]:
    """Return the rate of a loader of each form, in turns after an untimed pass of each.

    Args:
        photographs: Folder with one directory for each class.
        work: Folder for the other forms.
        rounds: Passes over each form.
        size: Height and width of the random crops.
    """
    measured: dict[str, list[Rate]] = {name: [] for name in FORMS}
    loaders = {}
    for name, make in FORMS.items():
        loaders[name] = stoker.ImageLoader(
            make(photographs, work),
            batch_size=64,
            transforms=[RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()],
            shuffle=True,
            num_threads=len(allowed_cores()),
            columns=("image",),
        )
    for _ in range(rounds + 1):
        for name, loader in loaders.items():
            loader.load_state_dict(loader.state_dict())  # discards the batches that are made ahead
            measured[name].append(_timed(partial(_read, loader)))
    for loader in loaders.values():
        loader.close()
    return _of_rounds(measured)


def measure_conversion(photographs: Path, work: Path, rounds: int = 5) -> dict[str, Rate]:
    """Return the rate of a conversion that keeps the bytes of each source, in turns, likewise."""
    sources = {name: make(photographs, work) for name, make in SOURCES.items()}
    measured: dict[str, list[Rate]] = {name: [] for name in sources}
    target = work / "converted"
    for _ in range(rounds + 1):
        for name, source in sources.items():
            shutil.rmtree(target, ignore_errors=True)
            measured[name].append(_timed(partial(_convert, source, target)))
    return _of_rounds(measured)


def _read(loader: stoker.ImageLoader) -> int:
    return sum(len(batch.image) for batch in loader)


def _convert(source: Path, target: Path) -> int:
    return stoker.convert(source, target).written


def _timed(work: Callable[[], int]) -> Rate:
    wall, cpu = time.perf_counter(), time.process_time()
    images = work()
    seconds = time.perf_counter() - wall
    return Rate(images / seconds, 1000 * (time.process_time() - cpu) / images)


def _of_rounds(measured: Mapping[str, list[Rate]]) -> dict[str, Rate]:
    return {
        name: Rate(
            statistics.median(rate.images_per_second for rate in rates[1:]),
            min(rate.cpu_seconds for rate in rates[1:]),
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
    parser = make_parser(__doc__)
    parser.add_argument("--source", type=Path, default=PHOTOGRAPHS)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    parser.add_argument("--copies", type=int, default=2048, help="photographs, copies of those of the source")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-in-place-", dir=given.work) as scratch:
        work, photographs = Path(scratch), Path(scratch) / "photographs"
        replicate(given.source, photographs, given.copies)
        print(_table("reading", measure_reading(photographs, work, given.rounds)))
        print(_table("conversion", measure_conversion(photographs, work, given.rounds)))


if __name__ == "__main__":
    main()
