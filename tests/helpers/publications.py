"""A conversion that is interrupted while it publishes a dataset, and another one that follows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import read_files
from helpers.options import convert

from stoker.formats.conversion import unfinished
from stoker.formats.files import remove
from stoker.formats.remote.store import Store


def _interrupted_at(number: int, owner: Any, names: Sequence[str], action: Callable[[], object]) -> int:
    """Interrupt an action at the n-th call of some functions; return the number of calls."""
    calls, lock = 0, threading.Lock()

    def counted(function: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any) -> None:
            nonlocal calls
            with lock:
                calls += 1
                now = calls == number
            if now:
                raise KeyboardInterrupt
            function(*args)

        return call

    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        for name in names:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        action()
    return calls


def _points(count: int, every: bool) -> list[int]:
    return list(range(1, count + 1) if every else sorted({*range(1, count, max(1, count // 6)), count}))


def check_in_folder(photos: Path, folder: Path, container: str, *, replaced: bool, every: bool) -> int:
    """Check that nothing of the interrupted conversion stays; return the number of its calls."""

    def make(name: str, shards: int) -> None:
        options = {"container": container, "val": "20%", "shards": shards}
        convert(photos, folder / name, overwrite=True, **options)

    def interrupt(number: int) -> int:
        if replaced:
            make("out", 5)
        return _interrupted_at(number, unfinished, ("move_durably", "remove"), lambda: make("out", 3))

    make("expected", 2)
    count = interrupt(0)
    for number in _points(count, every):
        remove(folder / "out")
        interrupt(number)
        make("out", 2)
        assert read_files(folder / "out") == read_files(folder / "expected"), f"interrupted at call {number}"
    return count


def check_at_url(photos: Path, memory: Any, container: str, *, every: bool) -> int:
    """As :func:`check_in_folder`, at a URL, where the interrupted conversion replaces a dataset."""

    def make(name: str, shards: int) -> None:
        options = {"container": container, "val": "20%", "shards": shards, "num_threads": 1}
        convert(photos, f"memory://bucket/{name}", overwrite=True, **options)

    def files(name: str) -> dict[str, bytes]:
        root = f"/bucket/{name}"
        return {path.removeprefix(root): memory.cat_file(path) for path in memory.find(root)}

    def interrupt(number: int) -> int:
        make("out", 5)
        return _interrupted_at(number, Store, ("move", "remove", "upload", "write"), lambda: make("out", 3))

    make("expected", 2)
    count = interrupt(0)
    for number in _points(count, every):
        memory.rm("/bucket/out", recursive=True)
        interrupt(number)
        make("out", 2)
        assert files("out") == files("expected"), f"interrupted at call {number}"
    return count
