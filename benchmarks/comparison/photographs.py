"""Photographs for benchmarks: copies of a folder of photographs, and the same in other sizes.

    python -m stoker.benchmarks.comparison.photographs TARGET [--source DIR]

writes the photographs of ImageNet's kind to a folder.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from stoker.errors import SourceError

from ..measuring import make_parser

_SIDE, _QUALITY, _NOISE = 500, 96, 6.0


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


def make_imagenet_like(source: Path, target: Path) -> None:
    """Write every photograph in the size, the quality and about the number of bytes of ImageNet's.

    Most photographs of ImageNet have a long side of 500 pixels, quality 96 and no chroma subsampling (see
    https://www.terryalanunlimited.com/compression-in-the-imagenet-dataset/), and 110 KB on average. The
    photographs that Stoker ships lost the noise of their cameras when they were scaled down: they would have
    52 KB. Noise of standard deviation 6 in the luminance gives them 110 KB.
    """
    paths = photographs_in(source)

    def remake(number: int) -> None:
        path = target / paths[number].relative_to(source).with_suffix(".jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(paths[number]) as image:
            factor = _SIDE / max(image.size)
            size = (round(image.width * factor), round(image.height * factor))
            scaled = np.asarray(image.convert("RGB").resize(size, Image.Resampling.LANCZOS))
        noise = np.random.default_rng(number).normal(0, _NOISE, (*scaled.shape[:2], 1))
        noisy = (scaled + noise).round().clip(0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(path, quality=_QUALITY, subsampling="4:4:4")

    with ThreadPoolExecutor() as pool:
        list(pool.map(remake, range(len(paths))))


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
