"""The second half of an epoch, in a new process: time to its first batch, and whether its samples are right.

    python -m stoker.benchmarks.comparison.resume [--against torch,tfdata,...] [--images 1024]

A process takes half of an epoch and saves the state of its loader. Another process goes on from this state. A
loader without a state makes the first half again with the same seed, as its users do. The samples are images
of noise, each with its own mean colour (see ``comparison.numbered_images``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import stoker

from ..measuring import allowed_cores
from ..peers import installed_rivals
from ..peers.base import PeerSettings, PeerSource
from .runner import PeerGone, PeerProcess
from .sources import open_source, write_numbered_images
from .text import make_part_parser, measure_each, print_table

_IMAGES, _SHARDS = 1024, 8


@dataclass(frozen=True)
class Resumed:
    """How one loader goes on in the middle of an epoch."""

    name: str  # Name of the loader for ``--against``
    # Time from the request to the first batch of the second half, in a new process that has imported the
    # library and made the loader
    seconds: float = 0.0
    saves_state: bool = False  # Whether the loader goes on from a state that it saved
    repeated: int = 0  # Number of samples of the second half that were seen before
    omitted: int = 0  # Number of samples that neither half has
    missing: str = ""  # Reason why there are no figures; empty where there are


def measure(source: PeerSource, name: str, batch_size: int = 64) -> Resumed:
    """Return how a loader goes on after half of an epoch."""
    settings = PeerSettings(batch_size, num_threads=len(allowed_cores()), resumable=True)
    half = source.records // batch_size // 2
    try:
        with PeerProcess(name) as process:
            process.begin(source, settings)
            before = process.ask("state", scratch=str(source.scratch / name), steps=half)
        with PeerProcess(name) as process:
            process.begin(source, settings, write=False)
            after = process.ask("resume", state=before["state"], steps=half, rest=half)
    except PeerGone as reason:
        return Resumed(name, missing=str(reason))
    first, second = before["seen"], after["seen"]
    return Resumed(
        name,
        after["resume_seconds"],
        saves_state=before["state"] is not None,
        repeated=len(second) - len(set(second) - set(first)),
        omitted=source.records - len(set(first) | set(second)),
    )


def _cells(one: Resumed) -> list[str]:
    origin = "a saved state" if one.saves_state else "the start of the epoch"
    return [f"{one.seconds:.2f} s", origin, f"{one.repeated:,}", f"{one.omitted:,}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = make_part_parser(__doc__, ("stoker", *installed_rivals()))
    parser.add_argument("--images", type=int, default=_IMAGES, help="a multiple of 128, at most 1,331")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        folder = Path(scratch)
        write_numbered_images(folder / "images", args.images)
        stoker.convert(
            folder / "images", folder / "shards", seed=0, storage=stoker.ImageStorage(shards=_SHARDS)
        )
        source = open_source(folder / "shards", folder)
        what = "half an epoch, and the other half"
        results = measure_each(args, what, lambda name: measure(source, name), records=source.records)
    print_table(("goes on after", "from", "repeated", "left out"), results, _cells)


if __name__ == "__main__":
    main()
