"""A program that kills changes of datasets, each in a forked process, at calls that change the disk.

    python changes.py FOLDER CHANGE calls      at a call of every kind
    python changes.py FOLDER CHANGE every      at every call

CHANGE is append, remove, merge, or all.
"""

from __future__ import annotations

import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
from helpers.processes import DiskFault, deadly_faults, die, end_of, fork
from PIL import Image

import stoker
from stoker.formats.dataset.manifest import MANIFEST_NAME

SAMPLES = {"append": (4, 7), "remove": (4, 3), "merge": (0, 7)}


def prepare(folder: Path) -> None:
    """Makes a dataset of four photographs in ``base``, one of three in ``other``, and their sources."""
    for name, numbers in {"first": range(4), "second": range(4, 7)}.items():
        for number in numbers:
            path = folder / name / "ab"[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(path)
    stoker.convert(folder / "first", folder / "base", storage=stoker.ImageStorage(shards=2))
    stoker.convert(folder / "second", folder / "other")


def change(what: str, folder: Path, target: Path) -> None:
    if what == "append":
        stoker.append(target, folder / "second", num_threads=1)
    elif what == "remove":
        stoker.remove(target, keys=["a/2.png"])
    else:
        stoker.merge([folder / "base", folder / "other"], target)


def kill(what: str, folder: Path, *, every: bool) -> int:
    """Kills the change at every call or at the middle one of each kind, and returns how often."""
    before, after = SAMPLES[what]
    target = folder / "target"

    def start() -> None:
        shutil.rmtree(target, ignore_errors=True)
        if before:
            shutil.copytree(folder / "base", target)

    def work(fault: DiskFault) -> None:
        with fault.installed():
            change(what, folder, target)

    start()
    calls = DiskFault(0, die)
    work(calls)
    faults = deadly_faults(calls, every=every)
    for fault in faults:
        start()
        assert end_of(fork(partial(work, fault))) == -signal.SIGKILL
        there = (target / MANIFEST_NAME).exists()
        found = len(stoker.open(target)) if there else 0
        assert found in (before, after), "the last version stands, or the new one"
        assert not there or stoker.verify(target).ok
        if found == before:
            change(what, folder, target)
        assert len(stoker.open(target)) == after
        assert stoker.verify(target, decode=True).ok
        unfinished = {path.name for path in target.glob(".*")}
        assert found == after or not unfinished, unfinished
    return len(faults)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
    changes = list(SAMPLES) if sys.argv[2] == "all" else [sys.argv[2]]
    print(min(kill(change, Path(sys.argv[1]), every=sys.argv[3] == "every") for change in changes))
