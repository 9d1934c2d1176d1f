"""The rate of DINO's views of one decoding, beside ten separate decodings and torchvision.

    python -m stoker.benchmarks.images.views [--source DIR] [--rounds 5] [--json FILE]

A sample has two crops to 224 of 40% to 100% of the image, and eight to 96 of 5% to 40%, each with flip and
normalisation, on photographs of ImageNet's size and quality, as they are and with restart markers. Ten
decodings are two loads by a loader of large crops and eight by one of small crops. torchvision decodes a
sample once, in workers of a DataLoader. All take turns in one tree of processes, each with as many threads or
workers as cores. CPU seconds show the cost of a sample on a busy machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop, Views

from ..comparison.photographs import imagenet_like, photographs_in
from ..measuring import (
    Cost,
    Epoch,
    allowed_cores,
    costs_in_turns,
    loading,
    make_parser,
    show_costs,
    write_costs,
)

_LARGE, _SMALL = (2, 224, (0.4, 1.0)), (8, 96, (0.05, 0.4))
"""Views, size and range of the area of DINO's crops."""
_FORMS = ("photographs", "restarts")


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


def measure(photographs: Path, work: Path, rounds: int) -> dict[str, Cost]:
    """Return the median costs of a sample, by what makes its views."""
    turns: dict[str, Callable[[], int]] = {}
    for form in _FORMS:
        stoker.convert(photographs, work / form, storage=stoker.ImageStorage(restarts=form == "restarts"))
        for name, transforms in _TRANSFORMS.items():
            turns[f"{form}: {name}"] = loading(work / form, transforms, 32)
    if find_spec("torchvision"):
        from ..peers.torchvision import crop_transforms, view_batches

        views = [crop_transforms(size, scale) for n, size, scale in (_LARGE, _SMALL) for _ in range(n)]
        paths = list(map(str, photographs_in(photographs)))
        turns["torchvision"] = Epoch(view_batches(paths, views, batch_size=32, workers=len(allowed_cores())))
    return costs_in_turns(turns, rounds)


def _of_samples(costs: Mapping[str, Cost]) -> dict[str, Cost]:
    """The costs of whole samples: views of one decoding, and ten decodings."""
    combined = {}
    for form in _FORMS:
        parts = [(_LARGE[0], costs[f"{form}: large"]), (_SMALL[0], costs[f"{form}: small"])]
        combined[f"{form}: ten decodings"] = Cost(
            sum(n * one.seconds for n, one in parts), sum(n * one.cpu_seconds for n, one in parts)
        )
        combined[f"{form}: one decoding"] = costs[f"{form}: views"]
    return combined | {name: cost for name, cost in costs.items() if name == "torchvision"}


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "scratch", "json", rounds=5, copies=512)
    args = parser.parse_args()
    with imagenet_like(args, "views") as work:
        costs = _of_samples(measure(work / "copies", work, args.rounds))
    show_costs(costs, "DINO's 2 x 224 + 8 x 96", "sample")
    write_costs(args.json, costs)


if __name__ == "__main__":
    main()
