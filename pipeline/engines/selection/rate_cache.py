"""A cache of rates that were measured on this machine, in the user's cache folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stoker.formats.files import cache_folder

_FORMAT = 1
_MOST = 100
"""Measurements that are kept, the newest ones."""


@dataclass(frozen=True)
class MeasuredRates:
    """The rates of engines, or of a loader without some stages, on one machine, for one dataset."""

    key: str  # Everything that decides the rates, as text; see :func:`choose_by_rate`
    dataset: str  # Path of the dataset, for people
    machine: str  # GPU or name, and threads, for people
    images_per_second: Mapping[str, float]  # Rates by name; 0 for an engine that failed

    @property
    def fastest(self) -> str:
        """Name of the engine with the highest rate; the first one of equal rates."""
        return max(self.images_per_second, key=lambda name: self.images_per_second[name])


class RateCache:
    """A file of measurements. A damaged file, and one whose folder cannot be written, counts as empty."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder()
        self._file = self._folder / f"{name}.json"

    def all(self) -> list[MeasuredRates]:
        """All measurements, the newest last."""
        try:
            document: Any = json.loads(self._file.read_text())
            measured = [MeasuredRates(**entry) for entry in document["measured"]]
            return measured if document["format"] == _FORMAT and all(map(_is_valid, measured)) else []
        except (OSError, ValueError, TypeError, KeyError):
            return []

    def find(self, key: str) -> MeasuredRates | None:
        """The measurement with this key."""
        return next((rates for rates in self.all() if rates.key == key), None)

    def add(self, rates: MeasuredRates) -> None:
        """Add a measurement; it replaces one with the same key."""
        newest = [*(one for one in self.all() if one.key != rates.key), rates][-_MOST:]
        document = {"format": _FORMAT, "measured": [asdict(one) for one in newest]}
        unfinished = self._file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(document, indent=1) + "\n")
            unfinished.replace(self._file)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one process of this machine measure, and the others wait for its result."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            yield
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _is_valid(rates: MeasuredRates) -> bool:
    """Whether the fields of a measurement, read from JSON, have the right types."""
    names = (rates.key, rates.dataset, rates.machine)
    return (
        all(isinstance(name, str) for name in names)
        and isinstance(rates.images_per_second, dict)
        and bool(rates.images_per_second)
        and all(isinstance(rate, (int, float)) for rate in rates.images_per_second.values())
    )
