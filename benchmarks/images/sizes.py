"""The rate of batches of changing sizes: by step, padded, ragged and in buckets, beside torchvision's.

    python -m stoker.benchmarks.images.sizes [--source DIR] [--rounds 5] [--json FILE]

The photographs have ImageNet's size and quality. "one size" and "random sizes" crop to squares; the random
sides are 160 to 288 pixels, drawn at every step, so that both make as many pixels on average. "padded" and
"ragged" resize the shorter side to 256 or 288 pixels, as detection does, and torchvision does the same in
workers of a DataLoader and pads each batch. "one shape" and "buckets" cover about 256 x 256 pixels. All take
turns in one tree of processes, each with as many threads or workers as cores. The plan of an epoch of buckets
is timed apart, for as many images as ``--planned`` says.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

import stoker
from stoker.augment import CoverCrop, Normalize, RandomHorizontalFlip, RandomResizedCrop, RandomShortestSize
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.photographs import (
    PHOTOGRAPHS,
    make_imagenet_like,
    photographs_in,
    replicate,
)
from stoker.benchmarks.images.views import Cost, median, timed
from stoker.benchmarks.peers.base import MEAN, STD
from stoker.benchmarks.report.machine import allowed_cores, describe
from stoker.bucketing.samplers.by_shape import ShapeBucketSampler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["main", "measure", "seconds_to_plan"]

_AFTER = [RandomHorizontalFlip(), Normalize()]
_CROP = [RandomResizedCrop(224), *_AFTER]
_KEPT = [RandomShortestSize((256, 288), max_size=480), *_AFTER]
_LOADERS: Mapping[str, dict[str, Any]] = {
    "one size": {"transforms": _CROP},
    "random sizes": {"transforms": _CROP, "sizes": stoker.RandomSizes(160, 288, step=32, every=1)},
    "padded": {"transforms": _KEPT, "sizes": "padded", "multiple": 32},
    "ragged": {"transforms": _KEPT, "sizes": "ragged"},
    "one shape": {"transforms": [CoverCrop(256), *_AFTER]},
    "buckets": {"transforms": _AFTER, "sizes": stoker.AspectBuckets(256 * 256, multiple=32)},
}
_BATCH = 16


def measure(photographs: Path, work: Path, rounds: int) -> dict[str, Cost]:
    """Return the median costs of a sample, by what makes its batches, after an untimed turn of each."""
    threads = len(allowed_cores())
    stoker.convert(photographs, work / "shards")
    common: dict[str, Any] = {"batch_size": _BATCH, "shuffle": True, "num_threads": threads, "prefetch": 2}
    turns: dict[str, Iterable[Any]] = {
        name: stoker.ImageLoader(work / "shards", **common, **options) for name, options in _LOADERS.items()
    }
    if find_spec("torchvision"):
        turns["padded by torchvision"] = _TorchvisionPadded(photographs, threads)
    costs: dict[str, list[Cost]] = {name: [] for name in turns}
    for _ in range(rounds + 1):
        for name, batches in turns.items():
            costs[name].append(timed(batches))
    return {name: median(found[1:]) for name, found in costs.items()}


def seconds_to_plan(images: int) -> float:
    """Seconds that a rank takes for the shapes and the plan of an epoch of ``images`` images."""
    sizes = np.random.default_rng(0).integers(200, 1200, (images, 2))
    began = time.perf_counter()
    shapes = stoker.AspectBuckets(512 * 512).shapes(sizes)
    ShapeBucketSampler(sizes, shapes, np.full(len(shapes), 32), world_size=8).plan(0)
    return time.perf_counter() - began


class _TorchvisionPadded:
    """Batches of the photographs in a folder by transforms v2, padded, in worker processes.

    Args:
        photographs: Folder with one directory for each class.
        workers: Number of worker processes.
    """

    def __init__(self, photographs: Path, workers: int) -> None:
        import torch
        from torchvision.transforms import v2

        transform = v2.Compose(
            [
                v2.RandomShortestSize([256, 288], max_size=480, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(MEAN, STD),
            ]
        )
        self._batches = torch.utils.data.DataLoader(
            _TorchvisionSamples([str(path) for path in photographs_in(photographs)], transform),
            batch_size=_BATCH,
            shuffle=True,
            num_workers=workers,
            persistent_workers=True,
            prefetch_factor=2,
            collate_fn=_padded,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)


@dataclass(frozen=True)
class _TorchvisionSamples:
    """Images by index."""

    paths: Sequence[str]
    transform: Any

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        from torchvision.io import ImageReadMode, decode_jpeg, read_file

        return self.transform(decode_jpeg(read_file(self.paths[index]), mode=ImageReadMode.RGB))


def _padded(images: Sequence[Any]) -> tuple[Any]:
    """A batch as torchvision's detection models pad it, to multiples of 32."""
    height, width = (-(-max(image.shape[axis] for image in images) // 32) * 32 for axis in (1, 2))
    batch = images[0].new_zeros((len(images), 3, height, width))
    for place, image in zip(batch, images, strict=True):
        place[:, : image.shape[1], : image.shape[2]] = image
    return (batch,)


def _show(costs: Mapping[str, Cost], console: Console) -> None:
    table = Table("batches", "images/s", "CPU ms an image", title="Batches of changing sizes")
    for name, cost in costs.items():
        table.add_row(name, f"{1 / cost.seconds:,.0f}", f"{1000 * cost.cpu_seconds:.2f}")
    console.print(table)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--source", type=Path, default=PHOTOGRAPHS)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    parser.add_argument("--copies", type=int, default=512, help="photographs, copies of those of the source")
    parser.add_argument("--planned", type=int, default=1_000_000, help="images of the plan that is timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for all figures, as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-sizes-", dir=given.work) as scratch:
        work = Path(scratch)
        make_imagenet_like(given.source, work / "made")
        replicate(work / "made", work / "copies", given.copies)
        costs = measure(work / "copies", work, given.rounds)
    planning = seconds_to_plan(given.planned)
    console = Console()
    _show(costs, console)
    console.print(f"plan of {given.planned:,} images in buckets: {planning:.2f} s")
    if given.json:
        found = {
            "machine": describe(allowed_cores()),
            "costs": {name: asdict(cost) for name, cost in costs.items()},
            "planned_images": given.planned,
            "seconds_to_plan": planning,
        }
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
