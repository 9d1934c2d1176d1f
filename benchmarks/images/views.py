"""The rate of DINO's views of one decoding, beside ten separate decodings and torchvision.

    python -m stoker.benchmarks.images.views [--source DIR] [--rounds 5] [--json FILE]

A sample has two crops to 224 of 40% to 100% of the image, and eight to 96 of 5% to 40%, each with flip and
normalisation, on photographs of ImageNet's size and quality, as they are and with restart markers. Ten
decodings are two loads by a loader of large crops and eight by one of small crops. torchvision decodes a
sample once, in workers of a DataLoader. All take turns in one tree of processes, each with as many threads or
workers as cores. The machine may do other work meanwhile: CPU seconds tell what a sample costs where samples
a second waver.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop, Views
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.photographs import (
    PHOTOGRAPHS,
    make_imagenet_like,
    photographs_in,
    replicate,
)
from stoker.benchmarks.comparison.usage import usage_of_tree
from stoker.benchmarks.peers.base import MEAN, STD
from stoker.benchmarks.report.goals import Goal, show_goals
from stoker.benchmarks.report.machine import allowed_cores, describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Cost", "TorchvisionViews", "main", "measure", "median", "timed", "torchvision_crop"]

_LARGE, _SMALL = (2, 224, (0.4, 1.0)), (8, 96, (0.05, 0.4))
"""Views, size and range of the area of DINO's crops."""
_BATCH = 32
_LEAST = 2.5


@dataclass(frozen=True)
class Cost:
    """What a sample of ten views costs, on average of a pass."""

    seconds: float
    cpu_seconds: float


def measure(photographs: Path, work: Path, rounds: int) -> dict[str, Cost]:
    """Return the median costs of a sample, by what makes its views, after an untimed turn of each."""
    threads = len(allowed_cores())
    for name in ("photographs", "restarts"):
        stoker.convert(photographs, work / name, restarts=name == "restarts")
    turns: dict[str, Iterable[Any]] = {
        f"{folder}: {name}": _loader(work / folder, transforms, threads)
        for folder in ("photographs", "restarts")
        for name, transforms in _TRANSFORMS.items()
    }
    if find_spec("torchvision"):
        views = [torchvision_crop(size, scale) for n, size, scale in (_LARGE, _SMALL) for _ in range(n)]
        turns["torchvision"] = TorchvisionViews(photographs, threads, views)
    costs: dict[str, list[Cost]] = {name: [] for name in turns}
    for _ in range(rounds + 1):
        for name, batches in turns.items():
            costs[name].append(timed(batches))
    return {name: median(found[1:]) for name, found in costs.items()}


def _crops(size: int, scale: tuple[float, float]) -> list[Any]:
    return [RandomResizedCrop(size, scale=scale), RandomHorizontalFlip(), Normalize()]


_TRANSFORMS: Mapping[str, Any] = {
    "views": {
        name: Views(n, _crops(size, scale))
        for name, (n, size, scale) in (("large", _LARGE), ("small", _SMALL))
    },
    "large": _crops(*_LARGE[1:]),
    "small": _crops(*_SMALL[1:]),
}


def _loader(dataset: Path, transforms: Any, threads: int) -> stoker.ImageLoader:
    return stoker.ImageLoader(
        dataset, batch_size=_BATCH, transforms=transforms, shuffle=True, num_threads=threads, prefetch=2
    )


def torchvision_crop(size: int, scale: tuple[float, float], *steps: Any) -> Any:
    """Torchvision's crop, flip and normalisation, with ``steps`` on the uint8 tensor between them."""
    import torch
    from torchvision.transforms import v2

    return v2.Compose(
        [
            v2.RandomResizedCrop(size, scale=scale, antialias=True),
            v2.RandomHorizontalFlip(),
            *steps,
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )


class TorchvisionViews:
    """Views of the photographs in a folder by transforms v2, in worker processes.

    Args:
        photographs: Folder with one directory for each class.
        workers: Number of worker processes.
        views: The transform of each view.
    """

    def __init__(self, photographs: Path, workers: int, views: Sequence[Any]) -> None:
        import torch

        self._batches = torch.utils.data.DataLoader(
            _TorchvisionSamples([str(path) for path in photographs_in(photographs)], views),
            batch_size=_BATCH,
            shuffle=True,
            num_workers=workers,
            persistent_workers=True,
            prefetch_factor=2,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)


@dataclass(frozen=True)
class _TorchvisionSamples:
    """Samples by index, each a list of views."""

    paths: Sequence[str]
    views: Sequence[Any]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> list[Any]:
        from torchvision.io import ImageReadMode, decode_jpeg, read_file

        pixels = decode_jpeg(read_file(self.paths[index]), mode=ImageReadMode.RGB)
        return [view(pixels) for view in self.views]


def timed(batches: Iterable[Any]) -> Cost:
    """The cost of a sample in one pass; the last column of a batch has an element for each."""
    _discard(batches)
    before, began, samples = usage_of_tree(os.getpid()), time.perf_counter(), 0
    for batch in batches:
        samples += len(batch[-1])
    seconds = time.perf_counter() - began
    cpu_seconds = usage_of_tree(os.getpid()).cpu_seconds - before.cpu_seconds
    _discard(batches)
    return Cost(seconds / samples, cpu_seconds / samples)


def _discard(batches: Iterable[Any]) -> None:
    """Drop the batches that a loader has made ahead, which another turn would pay for."""
    if isinstance(batches, stoker.ImageLoader):
        batches.load_state_dict(batches.state_dict())
    elif hasattr(batches, "discard"):
        batches.discard()


def median(costs: Sequence[Cost]) -> Cost:
    """The medians of the figures of several passes."""
    return Cost(
        statistics.median(one.seconds for one in costs), statistics.median(one.cpu_seconds for one in costs)
    )


def _compared(costs: Mapping[str, Cost]) -> dict[str, Cost]:
    """The costs of whole samples: views of one decoding, and ten decodings."""
    found = {}
    for name in ("photographs", "restarts"):
        large, small = costs[f"{name}: large"], costs[f"{name}: small"]
        found[f"{name}: one decoding"] = costs[f"{name}: views"]
        found[f"{name}: ten decodings"] = Cost(
            _LARGE[0] * large.seconds + _SMALL[0] * small.seconds,
            _LARGE[0] * large.cpu_seconds + _SMALL[0] * small.cpu_seconds,
        )
    return found | {name: cost for name, cost in costs.items() if name == "torchvision"}


def _show(costs: Mapping[str, Cost], console: Console) -> None:
    table = Table("views by", "samples/s", "CPU ms a sample", title="DINO's 2 x 224 + 8 x 96")
    for name, cost in costs.items():
        table.add_row(name, f"{1 / cost.seconds:,.0f}", f"{1000 * cost.cpu_seconds:.2f}")
    console.print(table)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--source", type=Path, default=PHOTOGRAPHS)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    parser.add_argument("--copies", type=int, default=512, help="photographs, copies of those of the source")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for all figures, as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-views-", dir=given.work) as scratch:
        work = Path(scratch)
        make_imagenet_like(given.source, work / "made")
        replicate(work / "made", work / "copies", given.copies)
        costs = _compared(measure(work / "copies", work, given.rounds))
    console = Console()
    _show(costs, console)
    goals = []
    for name in ("photographs", "restarts"):
        one, ten = costs[f"{name}: one decoding"], costs[f"{name}: ten decodings"]
        goals += [
            Goal(f"{name}: ten decodings over one, seconds", _LEAST, ten.seconds / one.seconds),
            Goal(f"{name}: ten decodings over one, CPU seconds", _LEAST, ten.cpu_seconds / one.cpu_seconds),
        ]
    show_goals(goals, console)
    if given.json:
        found = {
            "machine": describe(allowed_cores()),
            "costs": {name: asdict(cost) for name, cost in costs.items()},
            "goals": {goal.name: {"goal": goal.aim, "found": goal.found} for goal in goals},
        }
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
