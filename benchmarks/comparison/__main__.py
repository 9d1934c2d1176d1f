"""The whole comparison with other loaders, which ``make bench`` runs: one JSON file for each part.

    python -m stoker.benchmarks.comparison [--parts imagenet,text,...] [--results DIR] [--quick]

``python -m stoker.benchmarks.comparison.page`` makes docs/comparison.md from these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from stoker.benchmarks.comparison.bench import run_bench
from stoker.errors import ConfigError

from ..measuring import make_parser, report, write_json
from . import conversion, disk, memory, remote, resume, text
from .results import Comparison, show, to_json
from .sources import WORKLOADS, make_dataset

_RESULTS = Path(__file__).resolve().parents[1] / "results" / "comparison"
_FEW = 256
"""Images of a quick run, four batches."""
_MEMORY_IMAGES = 512


@dataclass(frozen=True)
class Run:
    """The options of a run."""

    source: Path  # Photographs, with one directory for each class
    work: Path  # Folder for the datasets, which a later run uses again
    rounds: int  # Timed turns of each image loader; the other parts have their own numbers
    quick: bool  # Whether each part runs on so little data that it only shows that it works

    def dataset(self, name: str, copies: int | None = None) -> Path:
        """Make the dataset of a workload, if it is missing, and return its folder."""
        workload = WORKLOADS[WORKLOADS[name].dataset or name]
        count = _FEW if self.quick else copies or workload.copies
        return make_dataset(replace(workload, copies=count), self.source, self.work)


@dataclass(frozen=True)
class Part:
    """A part of the comparison."""

    title: str  # What it measures
    minutes: float  # About how long it takes on two cores
    run: Callable[[Run, Path], None]  # Measures, prints, and writes the JSON file


def _workloads(names: Sequence[str], run: Run, json_out: Path) -> None:
    comparisons: list[Comparison] = []
    for name in names:
        workload = WORKLOADS[name]
        comparisons.append(
            run_bench(
                run.dataset(name),
                workload.peers,
                engines=(),
                rounds=1 if run.quick else run.rounds,
                size=workload.size,
                min_seconds=0.1 if run.quick else 2.0,
                workload=workload.title,
                report=report,
            )
        )
        show(comparisons[-1])
        write_json(json_out, [to_json(one) for one in comparisons])


def _program(
    main: Callable[[Sequence[str]], None],
    dataset: str,
    run: Run,
    json_out: Path,
    *,
    copies: int | None = None,
    quick: Sequence[str] = (),
) -> None:
    arguments = [str(run.dataset(dataset, copies))] if dataset else []
    main([*arguments, "--json", str(json_out), *(quick if run.quick else ())])


PARTS = {
    "imagenet": Part("photographs of ImageNet's size and quality", 7, partial(_workloads, ["imagenet"])),
    "imagenet256": Part("the same at short side 256", 5, partial(_workloads, ["imagenet256"])),
    "raw256": Part("raw pixels, short side 256", 4, partial(_workloads, ["raw256"])),
    "published": Part(
        "the workloads that FFCV and SPDL have published",
        3,
        partial(_workloads, ["ffcv-rn18", "ffcv-rn50", "spdl-example"]),
    ),
    "text": Part(
        "batches of text", 2, partial(_program, text.main, "", quick=["--repeats", "1", "--rounds", "1"])
    ),
    "resume": Part(
        "the second half of an epoch, in a new process",
        3,
        partial(_program, resume.main, "", quick=["--images", str(_FEW)]),
    ),
    "memory": Part(
        "memory over 20 epochs",
        4,
        partial(_program, memory.main, "imagenet256", copies=_MEMORY_IMAGES, quick=["--epochs", "2"]),
    ),
    "conversion": Part(
        "writing the files of each loader",
        2,
        partial(_program, conversion.main, "imagenet", quick=["--rounds", "1"]),
    ),
    "remote": Part(
        "an object store with a latency of 20 ms", 2, partial(_program, remote.main, "imagenet256")
    ),
    "disk": Part("a disk that is limited as a hard disk is", 4, partial(_program, disk.main, "imagenet")),
}
"""All parts by name, in the order of the page."""


def main() -> None:
    """Run from the command line."""
    listed = "\n".join(f"  {name:<12} {part.title}, {part.minutes:g} minutes" for name, part in PARTS.items())
    help_text = f"{__doc__}\nParts, with their times on two cores:\n{listed}\n"
    parser = make_parser(help_text, "source", "work", rounds=3)
    parser.add_argument("--parts", default=",".join(PARTS), help="names of parts, with commas between")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="folder for the JSON files")
    parser.add_argument("--quick", action="store_true", help="show in some minutes that all parts work")
    args = parser.parse_args()
    names = args.parts.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no part named {', '.join(unknown)}; there are {', '.join(PARTS)}")
    args.results.mkdir(parents=True, exist_ok=True)
    run = Run(args.source, args.work, args.rounds, args.quick)
    for number, name in enumerate(names, 1):
        part, start = PARTS[name], time.monotonic()
        report(f"part {number} of {len(names)}, {name}: {part.title}, about {part.minutes:g} minutes")
        try:
            part.run(run, args.results / f"{name}.json")
        except ConfigError as error:  # such as a disk that this process may not limit
            report(f"{name}: not measured. {error}")
        report(f"{name}: took {(time.monotonic() - start) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
