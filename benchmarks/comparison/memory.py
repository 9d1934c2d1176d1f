"""Memory of loaders over many epochs.

python -m stoker.benchmarks.comparison.memory DATASET [--against torch,tfdata,...] [--epochs 20]
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..measuring import allowed_cores
from ..peers import installed_rivals
from ..peers.base import PeerSettings, PeerSource
from .runner import PeerGone, PeerProcess
from .sources import open_source
from .text import make_part_parser, measure_each, print_table

_EPOCHS = 20


@dataclass(frozen=True)
class Memory:
    """Memory of one loader."""

    name: str  # Name of the loader for ``--against``
    memory: tuple[int, ...] = ()  # Bytes after each epoch, see ``usage.unshared_memory``
    missing: str = ""  # Reason why there are no figures; empty where there are


def measure(source: PeerSource, name: str, epochs: int = _EPOCHS) -> Memory:
    """Return the memory of a loader after each epoch."""
    try:
        with PeerProcess(name) as process:
            process.begin(source, PeerSettings(num_threads=len(allowed_cores())))
            return Memory(name, tuple(process.ask("endure", epochs=epochs)["memory"]))
    except PeerGone as reason:
        return Memory(name, missing=str(reason))


def _cells(one: Memory) -> list[str]:
    return [f"{one.memory[i] / 2**20:,.0f}" for i in (0, 1, -1)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = make_part_parser(__doc__, ("stoker", *installed_rivals()), "dataset")
    parser.add_argument("--epochs", type=int, default=_EPOCHS, help="two or more")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        source = open_source(args.dataset, Path(scratch))
        results = measure_each(
            args,
            f"{args.epochs} epochs",
            lambda name: measure(source, name, args.epochs),
            records=source.records,
            epochs=args.epochs,
        )
    print_table(("MiB after epoch 1", "after epoch 2", "after the last"), results, _cells)


if __name__ == "__main__":
    main()
