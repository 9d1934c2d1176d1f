"""The rate of DINO's views of one decoding, beside ten separate decodings and torchvision.

    python -m stoker.benchmarks.images.views [--source DIR] [--rounds 5] [--json FILE]

A sample has two crops to 224 of 40% to 100% of the image, and eight to 96 of 5% to 40%, each with flip and
normalisation, on photographs of ImageNet's size and quality, as they are and with restart markers. Ten
decodings are two loads by a loader of large crops and eight by one of small crops. torchvision decodes a
sample once, in workers of a DataLoader. All take turns in one tree of processes, each with as many threads or
workers as cores. CPU seconds show the cost of a sample on a busy machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop, Views
from stoker.benchmarks.comparison.photographs import photographs_in

from ..comparison.photographs import imagenet_like
from ..measuring import (
    Cost,
    Goal,
    allowed_cores,
    costs_in_turns,
    describe,
    make_parser,
    show_costs,
    show_goals,
    write_json,
)

_LARGE, _SMALL = (2, 224, (0.4, 1.0)), (8, 96, (0.05, 0.4))
"""Views, size and range of the area of DINO's crops."""
_BATCH = 32
_LEAST = 2.5


def measure(photographs: Path, work: Path, rounds: int) -> dict[str, Cost]:
    """Return the median costs of a sample, by what makes its views, after an untimed turn of each."""
    threads = len(allowed_cores())
    for name in ("photographs", "restarts"):
        stoker.convert(photographs, work / name, storage=stoker.ImageStorage(restarts=name == "restarts"))
    turns: dict[str, Iterable[Any]] = {
        f"{folder}: {name}": _loader(work / folder, transforms, threads)
        for folder in ("photographs", "restarts")
        for name, transforms in _TRANSFORMS.items()
    }
    if find_spec("torchvision"):
        from ..peers.torchvision import crop_transforms

        views = [crop_transforms(size, scale) for n, size, scale in (_LARGE, _SMALL) for _ in range(n)]
        turns["torchvision"] = TorchvisionViews(photographs, threads, views)
    return costs_in_turns(turns, rounds)


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


class TorchvisionViews:
    """Views of the photographs in a folder by transforms v2, in worker processes."""

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


def _compared(costs: Mapping[str, Cost]) -> dict[str, Cost]:
    """The costs of whole samples: views of one decoding, and ten decodings."""
    combined = {}
    for name in ("photographs", "restarts"):
        large, small = costs[f"{name}: large"], costs[f"{name}: small"]
        combined[f"{name}: one decoding"] = costs[f"{name}: views"]
        combined[f"{name}: ten decodings"] = Cost(
            _LARGE[0] * large.seconds + _SMALL[0] * small.seconds,
            _LARGE[0] * large.cpu_seconds + _SMALL[0] * small.cpu_seconds,
        )
    return combined | {name: cost for name, cost in costs.items() if name == "torchvision"}


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "scratch", "json", rounds=5, copies=512)
    args = parser.parse_args()
    with imagenet_like(args, "views") as work:
        costs = _compared(measure(work / "copies", work, args.rounds))
    console = Console()
    show_costs(costs, console, "DINO's 2 x 224 + 8 x 96", "sample")
    goals = []
    for name in ("photographs", "restarts"):
        one, ten = costs[f"{name}: one decoding"], costs[f"{name}: ten decodings"]
        goals += [
            Goal(f"{name}: ten decodings over one, seconds", _LEAST, ten.seconds / one.seconds),
            Goal(f"{name}: ten decodings over one, CPU seconds", _LEAST, ten.cpu_seconds / one.cpu_seconds),
        ]
    show_goals(goals, console)
    document = {
        "machine": describe(allowed_cores()),
        "costs": {name: asdict(cost) for name, cost in costs.items()},
        "goals": {goal.name: {"goal": goal.aim, "found": goal.found} for goal in goals},
    }
    write_json(args.json, document)


if __name__ == "__main__":
    main()
