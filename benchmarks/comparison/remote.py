"""Epochs of loaders whose files lie in an object store, behind a link with a latency and a bandwidth.

    python -m stoker.benchmarks.comparison.remote DATASET [--against webdataset,...] [--latency-ms 20]

The store is a server of S3's protocol on this machine, which takes processor time, too. Each loader reads
files of its own format. The first epoch fetches them; later epochs find the files that the loader has cached.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..measuring import allowed_cores
from ..peers.base import PeerSettings, PeerSource
from .object_store import object_store, upload
from .runner import PeerGone, PeerProcess
from .sources import open_source
from .text import make_part_parser, measure_each, print_table

_AGAINST = (
    "stoker",
    "stoker-blocks",
    "torch-files",
    "webdataset",
    "litdata",
    "mosaic-streaming",
    "hf-streaming",
    "ray-data",
)
_SECONDS = 2.0


@dataclass(frozen=True)
class RemoteEpochs:
    """Epochs of one loader."""

    name: str  # Name of the loader for ``--against``
    first_batch_seconds: float = 0.0  # Time from the request for the first epoch to its first batch
    # Rates of the first epoch, and of later epochs over at least two seconds
    images_per_second: tuple[float, ...] = ()
    missing: str = ""  # Reason why there are no figures; empty where there are


def measure(source: PeerSource, name: str) -> RemoteEpochs:
    """Return the rates of epochs from the running object store."""
    in_scratch = replace(source, scratch=source.scratch / name)
    in_scratch.scratch.mkdir()
    settings = asdict(PeerSettings(num_threads=len(allowed_cores())))
    try:
        with PeerProcess(name) as process:
            process.ask("import")
            written = process.ask("write", source=in_scratch.to_json(), settings=settings)["written_bytes"]
            url = upload(in_scratch.scratch if written else in_scratch.dataset, name)
            process.ask("prepare", source=replace(in_scratch, remote=url).to_json(), settings=settings)
            first = process.ask("warm_up")
            later = process.ask("turn", min_seconds=_SECONDS)
    except PeerGone as reason:
        return RemoteEpochs(name, missing=str(reason))
    rates = tuple(epochs["images"] / epochs["seconds"] for epochs in (first, later))
    return RemoteEpochs(name, first["first_batch_seconds"], rates)


def _cells(one: RemoteEpochs) -> list[str]:
    return [f"{one.first_batch_seconds:.2f} s", *(f"{rate:,.0f}" for rate in one.images_per_second)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = make_part_parser(__doc__, _AGAINST, "dataset")
    parser.add_argument("--latency-ms", type=float, default=20.0, help="latency of each request")
    parser.add_argument("--megabytes", type=float, default=150.0, help="bandwidth of the link, each second")
    args = parser.parse_args(arguments)
    link = {"latency_ms": args.latency_ms, "megabytes_per_second": args.megabytes}
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch,
        object_store(args.latency_ms / 1000, args.megabytes * 1e6),
    ):
        source = open_source(args.dataset, Path(scratch))
        results = measure_each(
            args, "epochs", lambda name: measure(source, name), records=source.records, **link
        )
    print_table(("first batch", "images/s, first epoch", "later epochs"), results, _cells)


if __name__ == "__main__":
    main()
