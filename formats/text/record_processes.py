"""Processes that make records of text, since rendering chats in Python holds the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from operator import index
from typing import SupportsIndex

from stoker.errors import ConfigError

from ..conversion.shards.encoder import EncodedRecord
from ..sources.listing import Skip
from ..worker_processes import can_fork, worker_processes
from .listing.line_format import SampleLines
from .records import TextRecords
from .training.text_composer import TextComposer

Make = Callable[[list[SampleLines]], list[EncodedRecord | Skip]]

_LEAST_BYTES = 4 << 20  # of a source: for less, the start of processes takes a large part of the time
_MOST = 4096


def check_processes(number: int | None) -> int | None:
    """Return a user's number of processes, or None."""
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, SupportsIndex) or not 0 <= index(number) <= _MOST:
        raise ConfigError(f"processes must be an integer from 0 to {_MOST}, not {number!r}")
    return index(number)


def choose_processes(requested: int | None, composer: TextComposer | None, size: int, threads: int) -> int:
    """Return the number of processes that make records; 0 for the threads of this process.

    By default there are as many as threads if the composer holds the interpreter's lock, the source is
    large enough, and processes can be forked.
    """
    if requested is not None:
        return requested
    holds_lock = composer is not None and composer.holds_lock
    return threads if holds_lock and size >= _LEAST_BYTES and threads > 1 and can_fork() else 0


@contextmanager
def record_maker(records: TextRecords, processes: int) -> Generator[Make]:
    """Yield a function that makes records in ``processes``, or in the calling thread if that is 0."""
    if not processes:
        yield records.encode
        return
    with worker_processes(
        records.encode, processes, work="makes records", sent="the tokenizer", fewer="processes=0"
    ) as submit:

        def make(samples: list[SampleLines]) -> list[EncodedRecord | Skip]:
            encoded: list[EncodedRecord | Skip] = submit(samples).result()
            return encoded

        yield make
