"""Memory of loaders over many epochs, and the time to go on in the middle of one.

    python -m stoker.benchmarks.comparison.parts.memory DATASET [--against torch,tfdata,...] [--epochs 20]

A loader that cannot save its state goes on as its users do: it makes the first half of the epoch again.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.runner import PeerGone, PeerProcess
from stoker.benchmarks.comparison.sources import open_source
from stoker.benchmarks.peers import TITLES, installed_rivals
from stoker.benchmarks.peers.base import PeerSettings
from stoker.benchmarks.report.machine import allowed_cores, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.benchmarks.peers.base import PeerSource

__all__ = ["Endurance", "measure"]

_EPOCHS = 20


@dataclass(frozen=True)
class Endurance:
    """What one loader needs over time.

    Attributes:
        name: Name of the loader for ``--against``.
        memory: Bytes after each epoch, see ``usage.unshared_memory``.
        resume_seconds: Time from the request to the first batch of the second half of an epoch, in a new
            process that has imported the library and made the loader.
        saves_state: Whether the loader goes on from a state that it saved.
        missing: Reason why there are no figures; empty where there are.
    """

    name: str
    memory: tuple[int, ...] = ()
    resume_seconds: float = 0.0
    saves_state: bool = False
    missing: str = ""


def measure(source: PeerSource, name: str, epochs: int = _EPOCHS, batch_size: int = 64) -> Endurance:
    """Return the memory of a loader after each epoch, and its time to go on.

    Args:
        source: The samples; files of the loader go into a folder of ``source.scratch``.
        name: Name of the loader, see ``peers.PEERS``.
        epochs: Number of epochs.
        batch_size: Number of images in a batch.
    """
    cores = allowed_cores()
    own = replace(source, scratch=source.scratch / name)
    own.scratch.mkdir()
    settings = PeerSettings(batch_size=batch_size, num_threads=len(cores), resumable=True)
    given = {"source": own.to_json(), "settings": asdict(settings)}
    half = source.records // batch_size // 2
    try:
        with PeerProcess(name, cores, len(cores)) as process:
            process.ask("import")
            process.ask("write", **given)
            process.ask("prepare", **given)
            memory = process.ask("endure", epochs=epochs)["memory"]
        with PeerProcess(name, cores, len(cores)) as process:
            process.ask("import")
            process.ask("prepare", **given)
            state = process.ask("state", scratch=str(own.scratch), steps=half)["state"]
        with PeerProcess(name, cores, len(cores)) as process:
            process.ask("import")
            process.ask("prepare", **given)
            seconds = process.ask("resume", state=state, steps=half)["resume_seconds"]
    except PeerGone as reason:
        return Endurance(name, missing=str(reason))
    return Endurance(name, tuple(memory), seconds, state is not None)


def _table(found: Sequence[Endurance]) -> Table:
    table = Table("loader", "MiB after epoch 1", "after the last", "goes on after", "from", box=None)
    for one in found:
        if one.missing:
            table.add_row(TITLES[one.name], "", "", "", one.missing)
            continue
        first, last = (f"{one.memory[i] / 2**20:,.0f}" for i in (0, -1))
        origin = "a saved state" if one.saves_state else "the start of the epoch"
        table.add_row(TITLES[one.name], first, last, f"{one.resume_seconds:.2f} s", origin)
    return table


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument(
        "--against", default="all", help="loaders, with commas between; default: those installed"
    )
    parser.add_argument("--epochs", type=int, default=_EPOCHS)
    parser.add_argument("--json", type=Path, help="file for all figures, as JSON")
    given = parser.parse_args()
    names = installed_rivals() if given.against == "all" else given.against.split(",")
    found: list[Endurance] = []
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        source = open_source(given.dataset, Path(scratch))
        for name in ("stoker", *names):
            print(f"{TITLES[name]}: {given.epochs} epochs", file=sys.stderr, flush=True)
            found.append(measure(source, name, given.epochs))
    Console().print(_table(found))
    if given.json:
        document: dict[str, Any] = {
            "machine": describe(allowed_cores()),
            "records": source.records,
            "loaders": [asdict(one) for one in found],
        }
        given.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
