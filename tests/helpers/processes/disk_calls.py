"""A fault in one of the calls by which a conversion changes the disk."""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.data.file_trees import read_files
from helpers.data.options import convert_options
from helpers.processes.programs import die

import stoker
from stoker.errors import DatasetError, WriteError
from stoker.formats.containers import lmdb, tfrecord
from stoker.formats.dataset.manifest import MANIFEST_NAME


class DiskFault:
    """A fault in the n-th call that changes the disk, or in the n-th call of one kind.

    Attributes:
        counts: Number of calls so far, by kind.
        hit: Whether the fault has happened.
    """

    def __init__(self, number: int, fault: Callable[[], Any], kind: str | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.hit = False
        self._number, self._fault, self._kind = number, fault, kind
        self._lock = threading.Lock()

    def wrap(self, call: Callable[..., Any], kind: str = "") -> Callable[..., Any]:
        """Returns the call with the fault in it."""

        def wrapped(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                self.counts[kind] += 1
                count = self.counts.total() if self._kind is None else self.counts[kind]
                failing = count == self._number and self._kind in (None, kind)
                self.hit |= failing
            if failing:
                self._fault()
            return call(*arguments, **options)

        return wrapped

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Puts the fault into every call that changes the disk, and replaces syncs by nothing."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda descriptor: None)
            calls: list[tuple[Any, str]] = [(os, "write"), (os, "fsync"), (Path, "rename"), (Path, "mkdir")]
            for writer in (tfrecord.TFRecordWriter, lmdb.LMDBWriter):
                calls += [(writer, "write"), (writer, "finish")]
            for owner, name in calls:
                patch.setattr(owner, name, self.wrap(getattr(owner, name), f"{owner.__name__}.{name}"))
            yield


@contextmanager
def full_disk(shards: int = 0) -> Iterator[None]:
    """A disk that has room for so many shards of a conversion: the files of any other cannot be synced."""
    fitting: set[str] = set()
    lock = threading.Lock()

    def fsync(descriptor: int) -> None:
        attempt = re.search(r"/attempt-\w+", str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        with lock:
            if attempt and len(fitting) < shards:
                fitting.add(attempt[0])
        if attempt and attempt[0] not in fitting:
            os_error(errno.ENOSPC)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


def os_error(code: int) -> Callable[[], None]:
    """Returns a fault that raises an OSError with this number."""

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    return fail


def deadly_faults(calls: DiskFault, *, every: bool) -> list[DiskFault]:
    """Returns faults that kill the process, at every counted call or at the middle one of each kind."""
    if every:
        return [DiskFault(number + 1, die) for number in range(calls.counts.total())]
    return [DiskFault((count + 1) // 2, die, kind) for kind, count in calls.counts.items()]


class FailingConversion:
    """A conversion of pictures in which a call fails, and which the same command then resumes."""

    def __init__(self, photos: Path, folder: Path, container: Any, code: int) -> None:
        self._photos, self._folder, self._code = photos, folder, code
        self._options: dict[str, Any] = {"format": container, "seed": 3, "shards": 3, "val": "25%"}
        self.calls = DiskFault(0, os_error(code))
        self._run(folder / "reference", self.calls)
        self._expected = read_files(folder / "reference")

    def _run(self, out: Path, fault: DiskFault) -> None:
        with fault.installed():
            stoker.convert(self._photos, out, num_threads=2, **convert_options(self._options))

    def fails_and_resumes(self, number: int, kind: str | None = None) -> bool:
        """Runs with the fault in a call, then without, and returns whether there is such a call."""
        out = self._folder / f"out-{kind}-{number}"
        fault = DiskFault(number, os_error(self._code), kind)
        try:
            self._run(out, fault)
        except WriteError as error:
            assert fault.hit
            assert ("disk is full" in str(error)) == (self._code == errno.ENOSPC)  # noqa: PT017 - not every fault is an error
        assert not list(out.glob(".stoker-*/attempt-*"))
        for manifest in out.glob(f"*/{MANIFEST_NAME}"):
            stoker.open(manifest.parent)
        try:
            self._run(out, DiskFault(0, os_error(self._code)))
        except DatasetError as error:
            assert "already" in str(error)  # noqa: PT017 - the fault may come after the last rename
        assert read_files(out) == self._expected
        shutil.rmtree(out)
        return fault.hit
