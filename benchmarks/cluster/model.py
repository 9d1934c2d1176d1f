"""A model of a loader with workers on 1 to 64 machines, from parts that are measured on this machine.

    python -m stoker.benchmarks.cluster.model [--cores 16] [--trainer-cores 16] [--ranks 8] [--json FILE]

The command measures the CPU time of an image: to make it in the loader's own engine, to make and send it on
a worker's machine, and to receive it on the trainer's machine. Both machines are this one: Ray runs twice
on it, and batches go from one to the other through a TCP connection. The cores and processes of the
machines, and the link of the trainer's machine, are given. Nothing was measured on several machines, so it
is named a model.
"""

from __future__ import annotations

import logging
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import stoker
from stoker.benchmarks.arguments import make_parser, write_json
from stoker.benchmarks.cluster.overhead import DTYPES, SIDE, image_loader
from stoker.benchmarks.comparison.photographs import PHOTOGRAPHS
from stoker.benchmarks.comparison.usage import usage_of_tree
from stoker.benchmarks.comparison.workloads import WORKLOADS, make_dataset
from stoker.benchmarks.report.machine import allowed_cores, describe

_IMAGES = 4096  # of an epoch
_NODES = (1, 2, 4, 8, 16, 32, 64)
_LINKS = (10, 25, 100)  # Gbit/s


@dataclass(frozen=True)
class Parts:
    """The cost of an image. Seconds are CPU time, so that other programs on the machine do not count."""

    size: int  # Bytes that are sent
    here: float  # Seconds to make it in the loader's own engine
    sent: float  # Seconds to make it on a worker and to send it, Ray's processes included
    # Seconds of the trainer's process to receive it. One thread receives, so they bound the rate
    received: float
    transfer: float  # Seconds of Ray's process on the trainer's machine to receive it


@dataclass(frozen=True)
class Rates:
    """Images a second of all ranks on one machine."""

    workers: int  # Those of the workers
    local: int  # Those of the loaders' own engines, on the cores that receiving leaves
    bound: str  # What bounds the workers: "cores" of their machines, "link" or "trainer"


@dataclass(frozen=True)
class Machines:
    """The machines of a cluster."""

    cores: int = 16  # Cores of a worker's machine
    trainer_cores: int = 16  # Cores of the trainer's machine that the loaders have
    ranks: int = 8  # Processes on the trainer's machine, each with a loader


def model(parts: Parts, machines: Machines, nodes: int, link: float) -> Rates:
    """Return the rates of a trainer's machine."""
    received = parts.received + parts.transfer
    bounds = {
        "cores": nodes * machines.cores / parts.sent,
        "link": link * 1e9 / 8 / parts.size,
        "trainer": min(machines.ranks / parts.received, machines.trainer_cores / received),
    }
    bound = min(bounds, key=lambda name: bounds[name])
    free = max(0.0, machines.trainer_cores - bounds[bound] * received)
    return Rates(round(bounds[bound]), round(free / parts.here), bound)


def _measure(dataset: Path, rounds: int) -> dict[str, Parts]:
    """The parts by dtype; a round is an epoch without workers, and one with a worker on all cores."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    node = cluster.add_node(num_cpus=len(allowed_cores()))
    ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        return {dtype: _costs(dataset, dtype, rounds, (cluster.head_node, node)) for dtype in DTYPES}
    finally:
        ray.shutdown()
        cluster.shutdown()


def _costs(dataset: Path, dtype: str, rounds: int, nodes: tuple[Any, Any]) -> Parts:
    """The parts of one dtype, medians of the rounds; ``nodes`` are Ray's of the trainer and of the worker."""
    long = stoker.mix([(stoker.open(dataset), 1)], samples=_IMAGES)
    loaders = [image_loader(long, dtype, None), image_loader(long, dtype, stoker.RayWorkers(local=False))]
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    epochs = []
    for loader in loaders:
        for _ in loader:  # starts everything and warms the page cache
            pass
    for _ in range(rounds):
        here, _, _ = _epoch(loaders[0], raylets)
        received, transfer, sent = _epoch(loaders[1], raylets)
        epochs.append((here, sent, received, transfer))
    for loader in loaders:
        loader.close()
    here, sent, received, transfer = (median(one) for one in zip(*epochs, strict=True))
    seconds = (round(one, 7) for one in (here, sent, received, transfer))
    return Parts(3 * SIDE**2, *seconds)


def _epoch(loader: Any, raylets: list[int]) -> list[float]:
    """Run an epoch; return seconds for an image: of this process, of Ray here, of the worker's machine."""

    def used() -> list[float]:
        return [process_time(), *(usage_of_tree(raylet).cpu_seconds for raylet in raylets)]

    before = used()
    images = sum(len(batch.label) for batch in loader)
    return [(after - earlier) / images for earlier, after in zip(before, used(), strict=True)]


def _modelled(parts: Parts, machines: Machines) -> list[dict[str, Any]]:
    return [
        {"nodes": nodes, "link": link, **asdict(model(parts, machines, nodes, link))}
        for nodes in _NODES
        for link in _LINKS
    ]


def _table(rows: list[dict[str, Any]]) -> str:
    """Images a second of workers and trainer together by nodes and links, and what bounds the workers."""
    heading = "| machines | " + " | ".join(f"{link} Gbit/s" for link in _LINKS) + " |"
    lines = [heading, "|---:" * (len(_LINKS) + 1) + "|"]
    for nodes in _NODES:
        rates = [row for row in rows if row["nodes"] == nodes]
        cells = (f"{one['workers'] + one['local']:,} ({one['bound']})" for one in rates)
        lines.append(f"| {nodes} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--cores", type=int, default=16, help="cores of a worker's machine")
    parser.add_argument("--trainer-cores", type=int, default=16, help="cores of the trainer for the loaders")
    parser.add_argument("--ranks", type=int, default=8, help="processes on the trainer's machine")
    parser.add_argument("--images", type=int, default=512, help="samples of the dataset")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each part")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    machines = Machines(args.cores, args.trainer_cores, args.ranks)
    with tempfile.TemporaryDirectory(prefix="stoker-model-") as folder:
        workload = replace(WORKLOADS["imagenet"], copies=args.images)
        measured = _measure(make_dataset(workload, PHOTOGRAPHS, Path(folder)), args.rounds)
    modelled = {dtype: _modelled(parts, machines) for dtype, parts in measured.items()}
    print(f"given: {asdict(machines)}")
    for dtype, parts in measured.items():
        print(f"measured, {dtype}, for an image: {asdict(parts)}")
        print(f"modelled, {dtype}: images/s, and what bounds the workers\n{_table(modelled[dtype])}")
    if args.json:
        document = {
            "kind": "model: nothing was measured on several machines",
            "machine": describe(allowed_cores()),
            "measured": {dtype: asdict(parts) for dtype, parts in measured.items()},
            "given": asdict(machines),
            "modelled": modelled,
        }
        write_json(args.json, document)


if __name__ == "__main__":
    main()
