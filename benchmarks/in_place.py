"""The speed of data read in place, beside the same images in Stoker's own shards.

    python -m stoker.benchmarks.in_place [--source PHOTOS] [--work DIR] [--copies N]

Every form in ``FORMS`` holds the same files of photographs. Loaders read them in turns, with the page cache
warm. Conversions of every form in ``SOURCES`` run in turns, too. CPU seconds show the cost on a busy machine.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import struct
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import lmdb
import pyarrow as pa
import pyarrow.parquet as pq

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.comparison.photographs import photographs_in, replicate
from stoker.formats.in_place.shards import index

from .measuring import Cost, costs_in_turns, loading, make_parser, show_costs

_SHARDS = 4
_RECORDIO_MAGIC = 0xCED7230A


def _blocks(photographs: Path) -> list[list[tuple[int, Path]]]:
    """Return the photographs of each shard, with their labels."""
    paths = photographs_in(photographs)
    labels = {name: number for number, name in enumerate(sorted({path.parent.name for path in paths}))}
    labelled = [(labels[path.parent.name], path) for path in paths]
    bounds = [shard * len(paths) // _SHARDS for shard in range(_SHARDS + 1)]
    return [labelled[start:end] for start, end in itertools.pairwise(bounds)]


def _indexed(shards: Sequence[Path], into: Path) -> Path:
    shutil.rmtree(into, ignore_errors=True)
    index(shards, into)
    return into


def tar_archives(photographs: Path, work: Path) -> Path:
    """Write archives as WebDataset's writer does: the class of an image, then the image."""
    folder = work / "tars"
    folder.mkdir(exist_ok=True)
    for shard, block in enumerate(_blocks(photographs)):
        with tarfile.open(folder / f"train-{shard:06d}.tar", "w") as archive:
            for label, path in block:
                key = f"{path.parent.name}/{path.stem}"
                _add(archive, f"{key}.cls", b"%d" % label)
                _add(archive, f"{key}.jpg", path.read_bytes())
    return folder


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def tar_index(photographs: Path, work: Path) -> Path:
    """Write the archives of :func:`tar_archives`, and index them."""
    return _indexed([tar_archives(photographs, work)], work / "tar-index")


def parquet_files(photographs: Path, work: Path) -> Path:
    """Write Parquet files as Hugging Face's datasets does, with a hundred images in a row group."""
    folder = work / "parquet"
    folder.mkdir(exist_ok=True)
    for shard, block in enumerate(_blocks(photographs)):
        images = [{"bytes": path.read_bytes(), "path": path.name} for _, path in block]
        table = pa.table({"image": images, "label": [path.parent.name for _, path in block]})
        pq.write_table(table, folder / f"train-{shard:05d}.parquet", row_group_size=100)
    return folder


def recordio_index(photographs: Path, work: Path) -> Path:
    """Write RecordIO files as MXNet's ``im2rec`` does, without the splitting at its magic number."""
    folder = work / "recordio"
    folder.mkdir(exist_ok=True)
    for shard, block in enumerate(_blocks(photographs)):
        with (folder / f"train-{shard}.rec").open("wb") as file:
            for number, (label, path) in enumerate(block):
                value = struct.pack("<IfQQ", 0, label, number, 0) + path.read_bytes()
                file.write(struct.pack("<II", _RECORDIO_MAGIC, len(value)) + value + bytes(-len(value) % 4))
    return _indexed([folder], work / "recordio-index")


def mds_index(photographs: Path, work: Path) -> Path:
    """Write MDS shards as Mosaic Streaming's MDSWriter does, with a column of images and one of labels."""
    folder = work / "mds"
    folder.mkdir(exist_ok=True)
    description = {
        "column_encodings": ["jpeg", "int"],
        "column_names": ["image", "label"],
        "column_sizes": [None, 8],
        "format": "mds",
        "version": 2,
    }
    config = json.dumps(description).encode()
    for shard, block in enumerate(_blocks(photographs)):
        images = [(label, path.read_bytes()) for label, path in block]
        samples = [struct.pack("<I", len(data)) + data + struct.pack("<q", label) for label, data in images]
        offsets = [4 * (len(samples) + 2) + len(config)]
        for sample in samples:
            offsets.append(offsets[-1] + len(sample))
        header = struct.pack(f"<{len(samples) + 2}I", len(samples), *offsets)
        (folder / f"shard.{shard:05}.mds").write_bytes(b"".join((header, config, *samples)))
    return _indexed([folder], work / "mds-index")


def lmdb_index(photographs: Path, work: Path) -> Path:
    """Write LMDB folders with a photograph under each key, as LSUN has them."""
    folders = []
    for shard, block in enumerate(_blocks(photographs)):
        folders.append(work / f"lmdb-{shard}")
        shutil.rmtree(folders[-1], ignore_errors=True)
        with (
            lmdb.open(os.fspath(folders[-1]), map_size=1 << 36) as environment,
            environment.begin(write=True) as transaction,
        ):
            for _, path in block:
                transaction.put(f"{path.parent.name}/{path.name}".encode(), path.read_bytes())
    return _indexed(folders, work / "lmdb-index")


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
    crop = [RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()]
    turns = {
        name: loading(make(photographs, work), crop, 64, columns=("image",)) for name, make in FORMS.items()
    }
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
