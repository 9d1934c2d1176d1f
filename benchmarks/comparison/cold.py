"""The first epoch of a new loader, with and without the dataset in the page cache.

python -m stoker.benchmarks.comparison.cold DATASET [--against tfdata-plain,dali,torch]
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import stoker

from ..measuring import allowed_cores, make_parser
from ..peers.base import PeerSettings, PeerSource
from .runner import PeerGone, PeerProcess
from .sources import open_source

PEERS = ("stoker", "stoker-no-read-ahead", "tfdata-plain", "dali", "torch")


def evict(paths: Sequence[Path]) -> None:
    """Drop files from the page cache, except pages that another process has mapped."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # pages that are not yet written back are not dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def measure(
    dataset: Path,
    peers: Sequence[str] = PEERS,
    rounds: int = 5,
    num_threads: int | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, float | str]]:
    """Return median images/s of the first epoch of a new process by peer, "cold" and "warm".

    A peer that cannot be measured has "missing" with the reason.
    """
    threads = num_threads or len(allowed_cores())
    files = stoker.open(dataset).data_files
    results: dict[str, dict[str, float | str]] = {}
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        source = open_source(dataset, Path(scratch))
        rates: dict[str, dict[str, list[float]]] = {name: {"cold": [], "warm": []} for name in peers}
        for number in range(rounds):
            for name in (name for name in peers if name not in results):
                report(f"round {number + 1} of {rounds}: {name}, cold and warm")
                try:
                    for state, values in rates[name].items():
                        values.append(_first_epoch(name, source, threads, files if state == "cold" else []))
                except PeerGone as reason:
                    results[name] = {"missing": str(reason)}
    for name, states in rates.items():
        results.setdefault(
            name, {state: statistics.median(values) for state, values in states.items() if values}
        )
    return {name: results[name] for name in peers}


def _first_epoch(name: str, source: PeerSource, threads: int, files: Sequence[Path]) -> float:
    """Return images/s of the first epoch of a new loader, after ``files`` are dropped from the cache."""
    with PeerProcess(name, allowed_cores()[:threads], threads) as process:
        process.begin(source, PeerSettings(num_threads=threads), write=False)
        evict(files)
        answer = process.ask("warm_up")
        return float(answer["images"] / answer["seconds"])


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "dataset", "threads", rounds=5)
    parser.add_argument("--against", default=",".join(PEERS[1:]))
    args = parser.parse_args()
    names = ("stoker", *(name for name in args.against.split(",") if name))
    for name, rates in measure(args.dataset, names, args.rounds, args.threads, print).items():
        print(name, rates)


if __name__ == "__main__":
    main()
