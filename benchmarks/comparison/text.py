"""Command lines, JSON and tables of the parts of the comparison."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

import stoker

from ..measuring import allowed_cores, describe, make_parser, report, write_json
from ..peers import TITLES
from ..peers.base import PeerSettings, PeerSource
from ..peers.text import TEXT_PEERS, TEXT_TITLES
from ..text.gsm8k import gsm8k_lengths
from .runner import PeerGone, PeerProcess

T = TypeVar("T")


def make_part_parser(
    description: str | None, against: Sequence[str], *shared: str, rounds: int | None = None
) -> argparse.ArgumentParser:
    """Return a parser with ``--json`` and ``--against``, which becomes a tuple of names.

    ``shared`` and ``rounds`` are those of :func:`stoker.benchmarks.measuring.make_parser`.
    """
    parser = make_parser(description, *shared, "json", rounds=rounds)
    parser.add_argument(
        "--against",
        type=lambda text: tuple(text.split(",")),
        default=tuple(against),
        help=f"loaders, with commas between; by default {', '.join(against)}",
    )
    return parser


def write_document(path: Path | None, loaders: Sequence[Any], **facts: Any) -> None:
    """Write the machine, ``facts`` and the figures of each loader as JSON, if there is a path.

    ``loaders`` are instances of a dataclass.
    """
    figures = [asdict(one) for one in loaders]
    write_json(path, {"machine": describe(allowed_cores()), **facts, "loaders": figures})


def measure_each(args: argparse.Namespace, what: str, measure: Callable[[str], T], **facts: Any) -> list[T]:
    """Measure the loaders of ``--against`` one after the other, and write the JSON after each of them."""
    results: list[T] = []
    for name in args.against:
        report(f"{TITLES[name]}: {what}")
        results.append(measure(name))
        write_document(args.json, results, **facts)
    return results


def print_table(
    headings: Sequence[str],
    loaders: Iterable[T],
    cells: Callable[[T], Sequence[str]],
    titles: Mapping[str, str] = TITLES,
) -> None:
    """Print a row for each loader: its title, and its figures or the reason why they are missing."""
    table = Table("loader", *headings, "", box=None)
    for one in loaders:
        name, missing = one.name, one.missing  # type: ignore[attr-defined]  # fields of each dataclass
        table.add_row(titles[name], *([""] * len(headings) if missing else cells(one)), missing)
    Console().print(table)


_REPEATS = 8
_BATCH = 64


@dataclass
class TextRates:
    """Figures of one loader of text, each a median over the rounds."""

    name: str  # Name of the loader
    million_tokens_per_second: float = 0.0  # Tokens without padding, by the clock
    cpu_seconds_per_million: float = 0.0  # Processor time of all processes of the loader for a million tokens
    padding: float = 0.0  # Share of padding among the values of the batches
    first_batch_seconds: float = 0.0  # Time from the request for the first epoch to its first batch
    versions: dict[str, str] = field(default_factory=dict)  # Versions of the packages of the loader
    notes: tuple[str, ...] = ()  # Differences between the work of this loader and that of the others
    missing: str = ""  # Reason why there are no figures; empty where there are


class _Running:
    """The process of a loader, and its turns so far."""

    def __init__(self, name: str, process: PeerProcess) -> None:
        self.rates = TextRates(name)
        self._process = process
        self._turns: list[dict[str, Any]] = []

    def start(self, source: PeerSource, settings: PeerSettings) -> None:
        """Import the library, write the files of the loader, and run a first epoch."""
        facts = self._process.begin(source, settings)
        self.rates.versions, self.rates.notes = facts["versions"], tuple(facts["notes"])
        self.rates.first_batch_seconds = self._process.ask("warm_up")["first_batch_seconds"]

    def turn(self, min_seconds: float) -> None:
        """Run one timed turn."""
        self._turns.append(self._process.ask("turn", min_seconds=min_seconds))

    def result(self) -> TextRates:
        """Return the medians."""
        if not self.rates.missing:
            median, millions = statistics.median, [one["tokens"] / 1e6 for one in self._turns]
            pairs = list(zip(self._turns, millions, strict=True))
            self.rates.million_tokens_per_second = median(n / one["seconds"] for one, n in pairs)
            self.rates.cpu_seconds_per_million = median(one["cpu_seconds"] / n for one, n in pairs)
            self.rates.padding = median(1 - one["tokens"] / one["slots"] for one in self._turns)
        return self.rates


def measure(
    names: Sequence[str], scratch: Path, rounds: int = 3, repeats: int = _REPEATS, min_seconds: float = 1.0
) -> list[TextRates]:
    """Return the figures of loaders of text, measured in turns."""
    source = _write_source(scratch, repeats)
    settings = PeerSettings(_BATCH, num_threads=len(allowed_cores()))
    with ExitStack() as stack:
        running = [_Running(name, stack.enter_context(PeerProcess(name))) for name in names]
        for number in range(rounds + 1):
            for one in running:
                turn = f"round {number} of {rounds}" if number else "preparing"
                report(f"{TEXT_TITLES[one.rates.name]}: {turn}")
                if not one.rates.missing:
                    try:
                        one.turn(min_seconds) if number else one.start(source, settings)
                    except PeerGone as reason:
                        one.rates.missing = str(reason)
        return [one.result() for one in running]


def _write_source(folder: Path, repeats: int) -> PeerSource:
    """Write the sequences as a dataset of Stoker and as a table."""
    generator = np.random.default_rng(0)
    lengths = np.tile(gsm8k_lengths("answer"), repeats)
    ids = generator.integers(97, 123, lengths.sum()).astype(np.uint16)
    letters, ends = ids.astype(np.uint8).tobytes().decode(), np.cumsum(lengths)
    lines = (letters[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True))
    (folder / "lines.txt").write_text("\n".join(lines))
    stoker.convert_text(folder / "lines.txt", folder / "shards", tokenizer="bytes")
    np.savez(folder / "sequences.npz", ids=ids, lengths=lengths)
    dataset = stoker.open(folder / "shards")
    return PeerSource(
        dataset.path, "tfrecord", (), folder / "sequences.npz", len(dataset), raw=False, scratch=folder
    )


def _cells(one: TextRates) -> list[str]:
    rate, cpu = f"{one.million_tokens_per_second:.2f}", f"{one.cpu_seconds_per_million:.3f}"
    return [rate, cpu, f"{one.padding:.1%}", f"{one.first_batch_seconds:.2f} s"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    parser = make_part_parser(__doc__, tuple(TEXT_PEERS), rounds=3)
    parser.add_argument("--repeats", type=int, default=_REPEATS, help="sequences of each length")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        results = measure(args.against, Path(scratch), args.rounds, args.repeats)
    fastest_first = sorted(results, key=lambda one: -one.million_tokens_per_second)
    headings = ("million tokens/s", "CPU s a million", "padding", "first batch")
    print_table(headings, fastest_first, _cells, TEXT_TITLES)
    write_document(args.json, results, repeats=args.repeats, rounds=args.rounds, batch_size=_BATCH)


if __name__ == "__main__":
    main()
