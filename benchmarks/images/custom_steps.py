"""The CPU time that a custom step costs in a loader, beside the bare loop over the same images.

    python -m stoker.benchmarks.images.custom_steps [--source DIR] [--rounds 7] [--json FILE]

The step looks up each level of a 224 x 224 image in a table, in NumPy. It is added to a random crop, a flip
and a normalisation: as a step for each image, as one for several images, and as a function that numba
compiles, where numba is installed. The overhead is the cost of the loader with the step, less that of the
loader without it and that of a loop that only calls the step. torchvision takes the same step in workers of
torch's DataLoader. All take turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop, Transform
from stoker.augment.state import TransformState
from stoker.augment.steps import BatchStep, Compiled, Step

from ..comparison.photographs import photographs_in
from ..measuring import Epoch, allowed_cores, costs_in_turns, loading, make_parser, write_json

Pixels = npt.NDArray[np.uint8]
Found = dict[str, float]

_BATCH = 32
_PASSES = 8  # so that batches that are made ahead and dropped hardly count
_LEVELS = np.roll(np.arange(256), 3).astype(np.uint8)


@dataclass(frozen=True)
class _Curve(Step):
    def apply(self, i: int, pixels: Pixels) -> Pixels:
        return _LEVELS[pixels]


@dataclass(frozen=True)
class _CurveOfBatches(BatchStep):
    def apply_batch(self, rows: npt.NDArray[np.intp], pixels: Pixels) -> Pixels:
        return _LEVELS[pixels]


@dataclass(frozen=True)
class _Add(Transform):
    """Adds the step of a name in :func:`_steps`."""

    name: str

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        state.add_steps(_steps()[self.name](len(u)))


def _steps() -> Mapping[str, Callable[[int], Step]]:
    """Makers of a step of N samples, by name."""
    made: dict[str, Callable[[int], Step]] = {
        "each image": lambda n: _Curve(np.ones(n, np.bool_)),
        "several images": lambda n: _CurveOfBatches(np.ones(n, np.bool_)),
    }
    if find_spec("numba"):
        made["compiled"] = lambda n: Compiled(np.ones(n, np.bool_), np.zeros((n, 0)), _compiled())
    return made


@cache
def _compiled() -> Any:
    """The same function, compiled once."""
    import numba

    levels = _LEVELS

    @numba.cfunc("void(CPointer(uint8), int64, int64, CPointer(float64))")
    def curve(rgb: Any, height: int, width: int, values: Any) -> None:
        for k in range(3 * height * width):
            rgb[k] = levels[rgb[k]]

    return curve


def measure(photographs: Path, work: Path, rounds: int) -> dict[str, Found]:
    """Return the CPU seconds of a sample by what the step is."""
    stoker.convert(photographs, work / "shards")
    before = [RandomResizedCrop(224), RandomHorizontalFlip()]
    seen = loading(work / "shards", before, _BATCH, layout="NHWC")
    images = np.concatenate([batch.image for batch in seen.batches])[: 2 * _BATCH].copy()
    load = partial(loading, work / "shards", batch_size=_BATCH, passes=_PASSES)
    turns: dict[str, Callable[[], int]] = {"without": load([*before, Normalize()])}
    for name in _steps():
        turns[name] = load([*before, _Add(name), Normalize()])
        turns[f"{name}, bare"] = partial(_bare, name, images)
    if find_spec("torchvision"):
        from ..peers.torchvision import crop_transforms, view_batches

        paths = list(map(str, photographs_in(photographs)))
        for name, colors in (("torchvision without", []), ("torchvision", [_curve_of_tensor])):
            views = [crop_transforms(224, colors=colors)]
            turns[name] = Epoch(view_batches(paths, views, batch_size=_BATCH, workers=len(allowed_cores())))
    cpu = {name: cost.cpu_seconds for name, cost in costs_in_turns(turns, rounds).items()}
    found = {}
    for name in (*_steps(), *["torchvision"] * ("torchvision" in cpu)):
        without = cpu["torchvision without" if name == "torchvision" else "without"]
        bare = cpu[f"{'each image' if name == 'torchvision' else name}, bare"]
        overhead = cpu[name] - without - bare
        found[name] = {"with_step": cpu[name], "without": without, "bare": bare, "overhead": overhead}
    return found


def _curve_of_tensor(pixels: Any) -> Any:
    import torch

    return torch.from_numpy(_LEVELS[pixels.numpy()])


def _bare(name: str, images: Pixels) -> int:
    """Do nothing but call the step, as often as the loader; return the number of images."""
    step = _steps()[name](len(images))
    for _ in range(_PASSES):
        if isinstance(step, BatchStep):
            share = _BATCH // len(allowed_cores())
            for first in range(0, len(images), share):
                part = images[first : first + share]
                step.run_batch(np.arange(len(part)), part)
        else:
            for i, pixels in enumerate(images):
                step.run(i, pixels)
    return _PASSES * len(images)


def main() -> None:
    """Run from the command line."""
    args = make_parser(__doc__, "source", "json", rounds=7).parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-custom-steps-") as scratch:
        found = measure(args.source, Path(scratch), args.rounds)
    table = Table("a step of", "with it", "without", "bare loop", "overhead", title="CPU ms a sample")
    for name, seconds in found.items():
        table.add_row(name, *(f"{1000 * one:.3f}" for one in seconds.values()))
    Console().print(table)
    write_json(args.json, found)


if __name__ == "__main__":
    main()
