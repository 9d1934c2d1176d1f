"""The rate of batches of changing sizes: by step, padded, ragged and in buckets, beside torchvision's.

    python -m stoker.benchmarks.images.sizes [--source DIR] [--rounds 5] [--json FILE]

The photographs have ImageNet's size and quality. "one size" and "random sizes" crop to squares; the random
sides are 160 to 288 pixels, drawn at every step, so that both make as many pixels on average. "padded" and
"ragged" resize the shorter side to 256 or 288 pixels, as detection does. "one shape" and "buckets" cover
about 256 x 256 pixels. "patches" are at most 256 of 16 x 16 pixels for an image, in rows of 1,024.
torchvision makes the same batches in workers of a DataLoader, whose batch sampler chooses the sizes; its
patches are padded to the longest image of a batch. All take turns in one tree of processes, each with as many
threads or workers as cores. The plan of an epoch of buckets is timed separately, for ``--planned`` images.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import stoker
from stoker.augment import CoverCrop, Normalize, RandomHorizontalFlip, RandomResizedCrop, RandomShortestSize
from stoker.bucketing.aspect_shapes import AspectSampler, nearest_shapes

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

_AFTER = [RandomHorizontalFlip(), Normalize()]
_CROP = [RandomResizedCrop(224), *_AFTER]
_KEPT = [RandomShortestSize((256, 288), max_size=480), *_AFTER]
_BUCKETS = stoker.AspectBuckets(256 * 256, multiple=32)
_LOADERS: Mapping[str, tuple[list[Any], dict[str, Any]]] = {
    "one size": (_CROP, {}),
    "random sizes": (_CROP, {"sizes": stoker.RandomSizes(160, 288, step=32, every=1)}),
    "padded": (_KEPT, {"sizes": stoker.Padded(32)}),
    "ragged": (_KEPT, {"sizes": "ragged"}),
    "one shape": ([CoverCrop(256), *_AFTER], {}),
    "buckets": (_AFTER, {"sizes": _BUCKETS}),
    "patches": (_AFTER, {"sizes": stoker.Patches(16, 256, 1024)}),
}
_BATCH = 16


class _Patches(Epoch):
    """A pass over rows of patches, which hold several images each."""

    def __call__(self) -> int:
        return sum(int((batch.label >= 0).sum()) for batch in self.batches)


def measure(photographs: Path, work: Path, rounds: int) -> dict[str, Cost]:
    """Return the median costs of a sample, by what makes its batches."""
    stoker.convert(photographs, work / "shards")
    turns: dict[str, Callable[[], int]] = {}
    for name, (transforms, options) in _LOADERS.items():
        batch_size = _BATCH // 4 if name == "patches" else _BATCH
        epoch = loading(work / "shards", transforms, batch_size, **options)
        turns[name] = _Patches(epoch.batches) if name == "patches" else epoch
    if find_spec("torchvision"):
        turns |= dict(_by_torchvision(photographs, len(allowed_cores())))
    return costs_in_turns(turns, rounds)


def _by_torchvision(photographs: Path, threads: int) -> Iterator[tuple[str, Epoch]]:
    """The batches of torchvision, with the shapes of Stoker's buckets."""
    from ..peers.torchvision import TORCHVISION_SIZES, torchvision_batches

    paths = [str(path) for path in photographs_in(photographs)]
    sizes = np.array([Image.open(path).size[::-1] for path in paths], np.int64)
    shapes = _BUCKETS.shapes(sizes)
    nearest = nearest_shapes(sizes, shapes)
    buckets = {tuple(shape): np.flatnonzero(nearest == k).tolist() for k, shape in enumerate(shapes.tolist())}
    for kind in TORCHVISION_SIZES:
        batches = torchvision_batches(kind, paths, buckets, batch_size=_BATCH, workers=threads)
        yield f"{kind} by torchvision", Epoch(batches)


def seconds_to_plan(images: int) -> float:
    """Seconds that a rank takes for the shapes and the plan of an epoch of ``images`` images."""
    sizes = np.random.default_rng(0).integers(200, 1200, (images, 2))
    began = time.perf_counter()
    shapes = stoker.AspectBuckets(512 * 512).shapes(sizes)
    batch_sizes = np.full(len(shapes), 32)
    AspectSampler(sizes, nearest_shapes(sizes, shapes), batch_sizes, shapes, world_size=8).plan(0)
    return time.perf_counter() - began


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "scratch", "json", rounds=5, copies=512)
    parser.add_argument("--planned", type=int, default=1_000_000, help="images of the plan that is timed")
    args = parser.parse_args()
    with imagenet_like(args, "sizes") as work:
        costs = measure(work / "copies", work, args.rounds)
    planning = seconds_to_plan(args.planned)
    show_costs(costs, "Batches of changing sizes")
    print(f"plan of {args.planned:,} images in buckets: {planning:.2f} s")
    write_costs(args.json, costs, planned_images=args.planned, seconds_to_plan=planning)


if __name__ == "__main__":
    main()
