"""The workloads of the comparison: datasets that are made from a folder of photographs."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stoker
from stoker.errors import SourceError
from stoker.formats.dataset.manifest import MANIFEST_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PHOTOGRAPHS", "WORKLOADS", "Workload", "enlarge", "make_dataset", "photographs_in", "replicate"]

PHOTOGRAPHS = Path(__file__).resolve().parents[2] / "examples" / "photos" / "train"
_ALL_PEERS = ("stoker", "stoker-dali", "tfdata", "tfdata-plain", "dali", "torch", "ffcv", "spdl")
_LARGE_QUALITY = 90


@dataclass(frozen=True)
class Workload:
    """A dataset, the loaders that are compared on it, and the goal.

    Attributes:
        name: Short name, also of the folder.
        title: Title in tables and pictures.
        copies: Number of samples, which are copies of the photographs under different names.
        least: Goal for the median rate of Stoker's native engine over the best rate of ``rivals``.
        rivals: Loaders of the goal.
        peers: Loaders that are compared.
        megapixels: Size to which the photographs are enlarged first; None leaves them.
        options: Options of ``stoker.convert``.
    """

    name: str
    title: str
    copies: int
    least: float
    rivals: tuple[str, ...] = ("tfdata", "tfdata-plain", "dali", "torch", "ffcv")
    peers: tuple[str, ...] = _ALL_PEERS
    megapixels: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


WORKLOADS = (
    Workload("photographs", "Photographs as they are", copies=2048, least=1.8),
    Workload(
        "short256",
        "Short side 256, quality 90",
        copies=2048,
        least=2.6,
        options={"resize": "shorter=256", "quality": 90, "encoding": "jpeg"},
    ),
    Workload(
        "raw256",
        "Raw pixels, short side 256",
        copies=4096,
        least=3.5,
        rivals=("ffcv",),
        peers=tuple(name for name in _ALL_PEERS if name != "spdl"),
        options={"resize": "shorter=256", "encoding": "raw"},
    ),
    Workload(
        "large",
        "Photographs of 12 megapixels",
        copies=192,
        least=2.0,
        # All loaders stay in memory between their turns; DALI takes 10 GB and FFCV 8 GB.
        peers=("stoker", "tfdata", "tfdata-plain", "dali", "torch", "ffcv"),
        megapixels=12,
    ),
)


def photographs_in(source: Path) -> list[Path]:
    """Return the JPEG files below a folder with one directory for each class, sorted.

    Raises:
        SourceError: There are no such files.
    """
    paths = sorted(path for path in source.glob("*/*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not paths:
        raise SourceError(
            "no photographs below this folder", path=source, hint="Name a folder with files CLASS/NAME.jpg."
        )
    return paths


def replicate(source: Path, target: Path, copies: int) -> None:
    """Write ``copies`` files into ``target``, copies of the photographs of ``source``.

    Links would share their bytes in the page cache.
    """
    paths = photographs_in(source)
    for number in range(copies):
        path = paths[number % len(paths)]
        folder = target / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / f"{path.stem}-{number // len(paths):03d}.jpg")


def enlarge(source: Path, target: Path, count: int, megapixels: int) -> None:
    """Write ``count`` photographs, evenly chosen and enlarged to ``megapixels`` million pixels."""
    paths = photographs_in(source)
    chosen = paths[:: max(1, len(paths) // count)][:count]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda path: _enlarge(path, target / path.parent.name, megapixels), chosen))


def _enlarge(path: Path, folder: Path, megapixels: int) -> None:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    with Image.open(path) as image:
        factor = (megapixels * 1e6 / (image.width * image.height)) ** 0.5
        size = (round(image.width * factor), round(image.height * factor))
        large = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    large.save(folder / path.name, quality=_LARGE_QUALITY)


def make_dataset(workload: Workload, source: Path, work: Path) -> Path:
    """Return the folder of a workload's dataset below ``work``; make the dataset if it is missing.

    The path of the source and the number of copies name the folder.
    """
    origin = hashlib.blake2b(f"{source.resolve()} {workload.copies}".encode(), digest_size=4).hexdigest()
    folder = work / origin
    target = folder / workload.name
    if (target / MANIFEST_NAME).exists():
        return target
    photographs, files = source, folder / f"{workload.name}-files"
    if workload.megapixels is not None:
        photographs = folder / f"{workload.name}-enlarged"
        enlarge(source, photographs, workload.copies // 4, workload.megapixels)
    replicate(photographs, files, workload.copies)
    stoker.convert(files, target, seed=0, shards=8, overwrite=True, **workload.options)
    shutil.rmtree(files)
    return target
