"""The cost of tar archives and Parquet files at URLs: bytes as shares of the files, and requests an image.

    python -m stoker.benchmarks.storage.remote_sources [--source PHOTOS] [--copies N]

The files lie in fsspec's file system ``memory``. Requests for the size of a file are not counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import fsspec

import stoker
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.photographs import replicate
from stoker.benchmarks.foreign_shards import parquet_files, tar_archives
from stoker.formats.in_place.shards import index
from stoker.formats.remote.store import Store

_URL = "memory://remote-sources"


class _Counter:
    """Counts the bytes and the requests of stores."""

    def __init__(self, size: int, images: int) -> None:
        self._size, self._images = size, images
        self._read = Store.read_range
        self._bytes = self._requests = 0

    def show(self, what: str, action: Callable[[], object]) -> None:
        """Run an action and print its reads."""
        self._bytes = self._requests = 0

        def read_range(store: Store, name: str, start: int, stop: int) -> bytes:
            self._bytes += stop - start
            self._requests += 1
            return self._read(store, name, start, stop)

        with patch.object(Store, "read_range", read_range):
            action()
        print(f"{what:40} {self._bytes / self._size:6.2f} {self._requests / self._images:6.2f}")


def _upload(folder: Path, name: str) -> int:
    memory = fsspec.filesystem("memory")
    for file in folder.iterdir():
        memory.pipe(f"/remote-sources/{name}/{file.name}", file.read_bytes())
    return sum(file.stat().st_size for file in folder.iterdir())


def _read_all(work: Path) -> None:
    dataset = stoker.open(work / "index", cache=work / "cache")
    for position in range(len(dataset)):
        dataset.read(position)


def main() -> None:
    """Measure and print."""
    arguments = make_parser(__doc__, "source", copies=512).parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-remote-") as folder:
        work = Path(folder)
        photographs = work / "photographs"
        replicate(arguments.source, photographs, arguments.copies)
        tars = _Counter(_upload(tar_archives(photographs, work), "tars"), arguments.copies)
        tables = _Counter(_upload(parquet_files(photographs, work), "tables"), arguments.copies)
        print(f"{'':40} {'bytes':>6} {'requests an image':>6}")
        tars.show("stoker index of archives", lambda: index([f"{_URL}/tars"], work / "index"))
        tars.show("first epoch with a cache", lambda: _read_all(work))
        tars.show("stoker index --checksums", lambda: index([f"{_URL}/tars"], work / "whole", checksums=True))
        for seed in (None, 0):
            how = "" if seed is None else ", shuffled"
            for name, counter in (("tars", tars), ("tables", tables)):
                target = work / f"{name}-{seed}"
                convert = partial(stoker.convert, f"{_URL}/{name}", target, seed=seed)
                counter.show(f"stoker convert of {name}{how}", convert)


if __name__ == "__main__":
    main()
