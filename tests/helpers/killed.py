"""A program that kills changes of the disk, each in a process forked from this one, at calls that make them.

One process that has imported everything forks every victim, so that a hundred kills cost no imports.

    python killed.py writer FOLDER CONTAINER MODE               a writer
    python killed.py appender FOLDER CONTAINER every            a writer that appends
    python killed.py conversion FOLDER CONTAINER MODE SOURCE    a conversion, which the next one resumes
    python killed.py change FOLDER CHANGE MODE                  an append, remove or merge

MODE is calls, at a call of every kind, or every, at every call. A conversion is killed at fifty random
moments with the mode moments.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from helpers.datasets import read_files
from helpers.options import convert_options, writer_options
from helpers.processes import DiskFault, deadly_faults, die, end_of, fork
from PIL import Image

import stoker
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.dataset.versions import HISTORY_NAME

KILLS = 50
SAMPLES = 5
CHANGED = {"append": (4, 7), "remove": (4, 3), "merge": (0, 7)}
"""Samples before and after each change."""

Work = Callable[[DiskFault], None]


def kill_each(
    work: Work, target: Path, mode: str, check: Callable[[dict[str, bytes]], None], base: Path | None = None
) -> int:
    """Kill the work at calls, and return how often; ``check`` gets the files of the undisturbed work."""

    def begin() -> None:
        shutil.rmtree(target, ignore_errors=True)
        if base is not None:
            shutil.copytree(base, target)

    begin()
    calls = DiskFault(0, die)
    work(calls)
    expected = read_files(target)
    faults = deadly_faults(calls, every=mode == "every")
    for fault in faults:
        begin()
        assert end_of(fork(partial(work, fault))) == -signal.SIGKILL
        check(expected)
    return len(faults)


def undisturbed(work: Work) -> int:
    """Do the work in a fork, and return its exit code, which is 3 where everything is there."""
    return end_of(fork(partial(work, DiskFault(0, die))))


def is_there(target: Path) -> bool:
    return (target / MANIFEST_NAME).exists()


def write(target: Path, container: str, append: bool, fault: DiskFault) -> None:
    """Write a dataset of three shards, or three more."""
    options = {"format": container, "shard_records": 2, "num_threads": 1, "classes": ["a", "b"]}
    with fault.installed(), stoker.Writer(target, append=append, **writer_options(options)) as writer:
        for i in range(SAMPLES):
            writer.write(np.full((4, 4, 3), i, np.uint8), label=i % 2, number=i, vector=np.arange(i))


def kill_writer(folder: Path, container: str, mode: str) -> int:
    target = folder / "out"
    work = partial(write, target, container, False)

    def check(expected: dict[str, bytes]) -> None:
        visible = is_there(target)
        if visible:
            assert len(stoker.open(target)) == SAMPLES
            assert stoker.verify(target).ok
        # Leftovers lock out no writer, and stay in no dataset.
        assert undisturbed(work) == (3 if visible else 0)
        if not visible:
            assert read_files(target) == expected

    return kill_each(work, target, mode, check)


def kill_appender(folder: Path, container: str, mode: str) -> int:
    base, target = folder / "base", folder / "out"
    write(base, container, False, DiskFault(0, die))
    work = partial(write, target, container, True)

    def check(expected: dict[str, bytes]) -> None:
        samples = len(stoker.open(target))
        assert samples in (SAMPLES, 2 * SAMPLES), "the last version stands, or the new one"
        assert stoker.verify(target, decode=True).ok
        assert undisturbed(work) == 0
        assert len(stoker.open(target)) == samples + SAMPLES
        if samples == SAMPLES:
            found = read_files(target)
            assert found.keys() == expected.keys()
            differing = {name for name in found if found[name] != expected[name]}
            assert differing <= {HISTORY_NAME}, "but its times"

    return kill_each(work, target, mode, check, base)


def convert(source: Path, container: str, target: Path, fault: DiskFault) -> None:
    options: dict[str, Any] = {"format": container, "seed": 3, "shards": 4, "val": "20%"}
    options |= {"num_threads": 2, "resize": "shorter=8"}
    with fault.installed():
        stoker.convert(source, target, **convert_options(options))


def check_splits(target: Path, expected: dict[str, bytes]) -> None:
    """Check every visible dataset of a conversion."""
    for split in ("train", "val"):
        if is_there(target / split):
            stoker.open(target / split)
            whole = {name: data for name, data in expected.items() if name.startswith(f"{split}/")}
            assert {f"{split}/{name}": data for name, data in read_files(target / split).items()} == whole


def kill_conversion(folder: Path, container: str, mode: str, source: str) -> int:
    """Kill conversions and return how many; at random moments until fifty are killed, and how many ended."""
    target = folder / "out"
    work = partial(convert, Path(source), container, target)
    if mode == "moments":
        return kill_at_moments(work, target)

    def check(expected: dict[str, bytes]) -> None:
        check_splits(target, expected)
        assert undisturbed(work) in (0, 3), "it resumes and ends"
        assert read_files(target) == expected

    return kill_each(work, target, mode, check)


def kill_at_moments(work: Work, target: Path) -> int:
    work(DiskFault(0, die))
    expected = read_files(target)
    shutil.rmtree(target)
    dice, patience = random.Random(0), 0.2
    kills = ended = 0
    while kills < KILLS or not ended:
        child = fork(partial(work, DiskFault(0, die)))
        if kills < KILLS:
            descriptor = os.pidfd_open(child)
            select.select([descriptor], [], [], dice.random() * patience)
            os.close(descriptor)
            os.kill(child, signal.SIGKILL)
        code = end_of(child)
        assert code in (0, 3, -signal.SIGKILL), code
        check_splits(target, expected)
        if code >= 0:
            assert read_files(target) == expected
            shutil.rmtree(target)
        # However slow or fast the machine becomes meanwhile, some attempts end and others do not.
        patience *= 1.25 if code < 0 else 0.5
        kills += code < 0
        ended += code >= 0
    return ended


def change(what: str, folder: Path, fault: DiskFault) -> None:
    with fault.installed():
        if what == "append":
            stoker.append(folder / "target", folder / "second", num_threads=1)
        elif what == "remove":
            stoker.remove(folder / "target", keys=["a/2.png"])
        else:
            stoker.merge([folder / "base", folder / "other"], folder / "target")


def kill_change(folder: Path, changes: str, mode: str) -> int:
    """Kill each change of a list with commas, and return how often at least."""
    for name, numbers in {"first": range(4), "second": range(4, 7)}.items():
        for number in numbers:
            path = folder / name / "ab"[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(path)
    stoker.convert(folder / "first", folder / "base", storage=stoker.ImageStorage(shards=2))
    stoker.convert(folder / "second", folder / "other")
    return min(_kill_change(what, folder, mode) for what in changes.split(","))


def _kill_change(what: str, folder: Path, mode: str) -> int:
    target, (before, after) = folder / "target", CHANGED[what]
    work = partial(change, what, folder)

    def check(expected: dict[str, bytes]) -> None:
        found = len(stoker.open(target)) if is_there(target) else 0
        assert found in (before, after), "the last version stands, or the new one"
        assert not is_there(target) or stoker.verify(target).ok
        if found == before:
            work(DiskFault(0, die))
        assert len(stoker.open(target)) == after
        assert stoker.verify(target, decode=True).ok
        unfinished = {path.name for path in target.glob(".*")}
        assert found == after or not unfinished, unfinished

    return kill_each(work, target, mode, check, folder / "base" if before else None)


KINDS: dict[str, Callable[..., int]] = {
    "writer": kill_writer,
    "appender": kill_appender,
    "conversion": kill_conversion,
    "change": kill_change,
}

if __name__ == "__main__":
    print(KINDS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:]))
