"""The largest memory of a process that indexes images in place, for many small files.

    python -m stoker.benchmarks.storage.index_memory [--files 1000000] [--folders 100]

The files are JPEGs of 16 x 16 pixels, hard links to a few of them. ``--folders 1`` makes a flat folder.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.usage import peak_rss
from stoker.formats.in_place.images import index_images

_LINKS = 1000  # to one file; file systems have a limit
_WARM_UP = 4  # images that are indexed before the measurement, which loads all modules


def make_files(folder: Path, files: int, folders: int) -> None:
    """Write ``files`` files into ``folders`` folders in ``folder``; into itself for one."""
    data = io.BytesIO()
    Image.new("RGB", (16, 16)).save(data, "JPEG")
    for number in range(files):
        group = folder if folders == 1 else folder / f"class-{number * folders // files:04d}"
        path = group / f"n{number:08d}.JPEG"
        if number % _LINKS == 0:
            group.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.getvalue())
            first = path
        else:
            group.mkdir(exist_ok=True)
            os.link(first, path)


def _child(folder: Path, work: Path) -> None:
    make_files(work / "few", _WARM_UP, 1)
    index_images(work / "few", work / "warm-up", unlabelled=True)
    before, began = peak_rss(os.getpid()), time.process_time()
    manifest = index_images(folder, work / "index")
    print(
        f"{manifest.index.rows:,} files: {peak_rss(os.getpid()) / 1e6:.0f} MB at the peak, "
        f"{before / 1e6:.0f} MB before it began, {time.process_time() - began:.0f} s of CPU"
    )


def main() -> None:
    """Measure in a new process, and print."""
    parser = make_parser(__doc__, "scratch")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--folders", type=int, default=100)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-index-memory-", dir=args.work) as work:
        if args.child is not None:
            _child(args.child, Path(work))
            return
        make_files(Path(work) / "files", args.files, args.folders)
        command = [sys.executable, "-m", "stoker.benchmarks.storage.index_memory"]
        subprocess.run([*command, "--child", str(Path(work) / "files")], check=True)


if __name__ == "__main__":
    main()
