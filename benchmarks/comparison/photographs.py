"""Photographs for benchmarks: copies of a folder of photographs, and the same in other sizes.

    python -m stoker.benchmarks.comparison.photographs TARGET [--source DIR]

writes the photographs of ImageNet's kind to a folder.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from stoker.errors import SourceError

from ..measuring import make_parser

_LARGE_QUALITY = 90
_IMAGENET_SIDE, _IMAGENET_QUALITY, _IMAGENET_NOISE = 500, 96, 6.0


def photographs_in(source: Path) -> list[Path]:
    """Return the JPEG files below a folder with one directory for each class, sorted."""
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

    def enlarged(number: int, image: Image.Image) -> Image.Image:
        return _resized(image, (megapixels * 1e6 / (image.width * image.height)) ** 0.5)

    _write(paths[:: max(1, len(paths) // count)][:count], target, enlarged, quality=_LARGE_QUALITY)


def make_imagenet_like(source: Path, target: Path) -> None:
    """Write every photograph in the size, the quality and about the number of bytes of ImageNet's.

    Most photographs of ImageNet have a long side of 500 pixels, quality 96 and no chroma subsampling (see
    https://www.terryalanunlimited.com/compression-in-the-imagenet-dataset/), and 110 KB on average. The
    photographs that Stoker ships lost the noise of their cameras when they were scaled down: they would have
    52 KB. Noise of standard deviation 6 in the luminance gives them 110 KB.
    """

    def remade(number: int, image: Image.Image) -> Image.Image:
        scaled = _resized(image, _IMAGENET_SIDE / max(image.size))
        noise = np.random.default_rng(number).normal(0, _IMAGENET_NOISE, (scaled.height, scaled.width, 1))
        return Image.fromarray((np.asarray(scaled) + noise).round().clip(0, 255).astype(np.uint8))

    _write(photographs_in(source), target, remade, quality=_IMAGENET_QUALITY, subsampling="4:4:4")


def _resized(image: Image.Image, factor: float) -> Image.Image:
    size = (round(image.width * factor), round(image.height * factor))
    return image.resize(size, Image.Resampling.LANCZOS)


def _write(
    paths: list[Path], target: Path, change: Callable[[int, Image.Image], Image.Image], **encoding: Any
) -> None:
    """Write changed photographs as JPEG; ``change`` is called with the number of each and its RGB pixels."""

    def write(number: int) -> None:
        path = paths[number]
        folder = target / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            change(number, image.convert("RGB")).save(folder / f"{path.stem}.jpg", **encoding)

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, range(len(paths))))


@contextmanager
def imagenet_like(args: argparse.Namespace, name: str) -> Iterator[Path]:
    """Yield a temporary folder with photographs of ImageNet's size and quality in ``made`` and ``copies``."""
    with tempfile.TemporaryDirectory(prefix=f"stoker-{name}-", dir=args.work) as scratch:
        work = Path(scratch)
        make_imagenet_like(args.source, work / "made")
        replicate(work / "made", work / "copies", args.copies)
        yield work


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source")
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    make_imagenet_like(args.source, args.target)
    sizes = [path.stat().st_size for path in photographs_in(args.target)]
    print(f"{len(sizes)} photographs, {sum(sizes) / len(sizes) / 1000:.1f} KB on average")


if __name__ == "__main__":
    main()
