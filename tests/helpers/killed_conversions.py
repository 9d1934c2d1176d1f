"""A program that kills conversions, each in a process forked from this one, and lets the next one resume.

One process that has imported everything forks every converter, so that a hundred kills cost no imports.

    python conversions.py SOURCE FOLDER CONTAINER calls      at a call of every kind
    python conversions.py SOURCE FOLDER CONTAINER moments    at fifty random moments
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from helpers.datasets import read_files
from helpers.options import convert_options
from helpers.processes import DiskFault, deadly_faults, die, end_of, fork

import stoker
from stoker.formats.dataset.manifest import MANIFEST_NAME

KILLS = 50


class Conversions:
    """Conversions of one source, and the files of one that was not killed."""

    def __init__(self, source: Path, folder: Path, container: str) -> None:
        self._source, self._folder = source, folder
        self._options: dict[str, Any] = {"format": container, "seed": 3, "shards": 4, "val": "20%"}
        self._options |= {"num_threads": 2, "resize": "shorter=8"}
        self.calls = DiskFault(0, die)
        with self.calls.installed():
            stoker.convert(source, folder / "reference", **convert_options(self._options))
        self._expected = read_files(folder / "reference")

    def start(self, target: Path, fault: DiskFault) -> int:
        """Forks a converter and returns its process id; it exits with 3 where everything is converted."""

        def work() -> None:
            with fault.installed():
                stoker.convert(self._source, target, **convert_options(self._options))

        return fork(work)

    def end(self, child: int, target: Path) -> bool:
        """Waits for a converter, checks every visible dataset and returns whether it was killed."""
        code = end_of(child)
        assert code in (0, 3, -signal.SIGKILL), code
        for split in ("train", "val"):
            if (target / split / MANIFEST_NAME).exists():
                stoker.open(target / split)
                assert read_files(target / split) == read_files(self._folder / "reference" / split)
        if code in (0, 3):
            assert read_files(target) == self._expected
            shutil.rmtree(target)
        return code < 0

    def kill_at_calls(self) -> int:
        """Kills converters at the middle one of the calls of each kind and returns how many there were."""
        faults = deadly_faults(self.calls, every=False)
        for number, fault in enumerate(faults):
            target = self._folder / str(number)
            assert self.end(self.start(target, fault), target)
            assert not self.end(self.start(target, DiskFault(0, die)), target), "it resumes and ends"
        return len(faults)

    def kill_at_moments(self) -> int:
        """Kills converters until there were enough kills, and returns how many conversions ended."""
        dice, patience = random.Random(0), 0.2
        kills = ended = 0
        while kills < KILLS or not ended:
            target = self._folder / f"out-{ended}"
            child = self.start(target, DiskFault(0, die))
            if kills < KILLS:
                descriptor = os.pidfd_open(child)
                select.select([descriptor], [], [], dice.random() * patience)
                os.close(descriptor)
                os.kill(child, signal.SIGKILL)
            killed = self.end(child, target)
            # However slow or fast the machine becomes meanwhile, some attempts end and others do not.
            patience *= 1.25 if killed else 0.5
            kills += killed
            ended += not killed
        return ended


if __name__ == "__main__":
    conversions = Conversions(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    print(conversions.kill_at_calls() if sys.argv[4] == "calls" else conversions.kill_at_moments())
