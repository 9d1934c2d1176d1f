"""The memory and the time of listing a source and planning its conversion, for a folder and a CSV.

    python -m stoker.benchmarks.conversion.listing [--files 1000000]

The files are links to one photograph, in folders of a thousand. Each source is listed and planned in its own
process, with 10% held out.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from stoker.benchmarks.arguments import make_parser, run_module
from stoker.benchmarks.comparison.photographs import PHOTOGRAPHS, photographs_in
from stoker.benchmarks.comparison.usage import peak_rss
from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.conversion.plan import plan_conversion
from stoker.formats.sources.detect import find_format, list_source
from stoker.formats.sources.source import Source

_FILES_A_FOLDER = 1000


@dataclass(frozen=True)
class Listed:
    """Memory and time of listing and planning."""

    files: int  # Number of files
    name_bytes: int  # Bytes of the names of all files
    peak_bytes: int  # Largest memory of the process, less its memory before
    seconds: float  # CPU seconds


def make_sources(folder: Path, files: int) -> list[Path]:
    """Write a folder of classes, and a CSV with a label and a number for each image; return their paths."""
    image = photographs_in(PHOTOGRAPHS)[0].read_bytes()
    lines = ["path,label,score\n"]
    for number in range(files):
        group, position = divmod(number, _FILES_A_FOLDER)
        name = f"class-{group:04d}/n{group:08d}_{position:08d}.JPEG"
        path = folder / "photos" / name
        if position == 0:
            path.parent.mkdir(parents=True)
            path.write_bytes(image)
            first = path
        else:
            os.link(first, path)
        lines.append(f"photos/{name},class {group},{number / 7}\n")
    (folder / "photos.csv").write_text("".join(lines))
    return [folder / "photos", folder / "photos.csv"]


def measure(source: Path) -> Listed:
    """Return the figures of a source, which a new process lists and plans."""
    return Listed(**run_module("stoker.benchmarks.conversion.listing", "--child", source))


def _child(source: Path) -> Listed:
    _plan(PHOTOGRAPHS)  # imports everything before the measurement
    before, began = peak_rss(os.getpid()), time.process_time()
    files, name_bytes = _plan(source)
    return Listed(files, name_bytes, peak_rss(os.getpid()) - before, time.process_time() - began)


def _plan(source: Path) -> tuple[int, int]:
    opened = Source(source)
    listing = list_source(opened, find_format(opened))
    plan_conversion(listing, ConvertOptions(shard_bytes=256_000_000, seed=0, val=Fraction(1, 10)))
    return len(listing), listing.keys.buffers()[2].size


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(asdict(_child(args.child))))
        return
    with tempfile.TemporaryDirectory(prefix="stoker-listing-") as folder:
        for source in make_sources(Path(folder), args.files):
            listing = measure(source)
            memory, name = listing.peak_bytes / listing.files, listing.name_bytes / listing.files
            print(
                f"{source.name}: {listing.files:,} files, at most {memory:.0f} bytes of memory per file "
                f"({name:.0f} for its name), {listing.seconds:.1f} s"
            )


if __name__ == "__main__":
    main()
