"""A program that kills writers, each in a process forked from this one, at calls that change the disk.

One process that has imported everything forks every writer, so that a hundred kills cost no imports.

    python writers.py FOLDER CONTAINER calls      at a call of every kind
    python writers.py FOLDER CONTAINER every      at every call
    python writers.py FOLDER CONTAINER append     at every call of a writer that appends
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import numpy as np
from helpers.datasets import read_files
from helpers.options import writer_options
from helpers.processes import DiskFault, deadly_faults, die, end_of, fork

import stoker
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.dataset.versions import HISTORY_NAME

SAMPLES = 5


def write(target: Path, container: str, fault: DiskFault, *, append: bool = False) -> None:
    """Writes a dataset of three shards, or three more."""
    options = {"format": container, "shard_records": 2, "num_threads": 1, "classes": ["a", "b"]}
    with fault.installed(), stoker.Writer(target, append=append, **writer_options(options)) as writer:
        for i in range(SAMPLES):
            writer.write(np.full((4, 4, 3), i, np.uint8), label=i % 2, number=i, vector=np.arange(i))


def start(target: Path, container: str, fault: DiskFault, *, append: bool = False) -> int:
    """Forks a writer and returns its exit code, which is 3 where a dataset is there."""
    return end_of(fork(lambda: write(target, container, fault, append=append)))


def kill(folder: Path, container: str, *, every: bool) -> int:
    """Kills writers at every call or at the middle one of each kind, and returns how many were killed."""
    calls = DiskFault(0, die)
    write(folder / "reference", container, calls)
    expected = read_files(folder / "reference")
    faults = deadly_faults(calls, every=every)
    for fault in faults:
        target = folder / "out"
        assert start(target, container, fault) == -signal.SIGKILL
        visible = (target / MANIFEST_NAME).exists()
        if visible:
            assert len(stoker.open(target)) == SAMPLES
            assert stoker.verify(target).ok
        # Leftovers lock out no writer, and stay in no dataset.
        assert start(target, container, DiskFault(0, die)) == (3 if visible else 0)
        if not visible:
            assert read_files(target) == expected
        shutil.rmtree(target)
    return len(faults)


def kill_appending(folder: Path, container: str) -> int:
    """Kills writers that append at every call, and returns how many were killed."""
    base, grown, target = folder / "base", folder / "grown", folder / "out"
    write(base, container, DiskFault(0, die))
    shutil.copytree(base, grown)
    calls = DiskFault(0, die)
    write(grown, container, calls, append=True)
    expected = read_files(grown)
    faults = deadly_faults(calls, every=True)
    for fault in faults:
        shutil.copytree(base, target)
        assert start(target, container, fault, append=True) == -signal.SIGKILL
        samples = len(stoker.open(target))
        assert samples in (SAMPLES, 2 * SAMPLES), "the last version stands, or the new one"
        assert stoker.verify(target, decode=True).ok
        assert start(target, container, DiskFault(0, die), append=True) == 0
        assert len(stoker.open(target)) == samples + SAMPLES
        if samples == SAMPLES:
            found = read_files(target)
            assert found.keys() == expected.keys()
            assert all(found[name] == expected[name] for name in found if name != HISTORY_NAME), (
                "but its times"
            )
        shutil.rmtree(target)
    return len(faults)


if __name__ == "__main__":
    if sys.argv[3] == "append":
        print(kill_appending(Path(sys.argv[1]), sys.argv[2]))
    else:
        print(kill(Path(sys.argv[1]), sys.argv[2], every=sys.argv[3] == "every"))
