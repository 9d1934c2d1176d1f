"""The CPU time that a custom step costs in a loader, beside the bare loop over the same images.

    python -m stoker.benchmarks.images.custom_steps [--source DIR] [--rounds 7] [--json FILE]

The step looks up each level of a 224 x 224 image in a table, in NumPy. It is added to a random crop, a flip
and a normalisation: as a step for each image, as one for several images, and as a function that numba
compiles, where numba is installed. The overhead is the cost of the loader with the step, less that of the
loader without it and that of a loop that only calls the step. torchvision takes the same step in workers of
torch's DataLoader. All take turns.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
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
from stoker.benchmarks.images.views import TorchvisionViews

from ..measuring import allowed_cores, discard, make_parser, timed, write_json

Pixels = npt.NDArray[np.uint8]

_BATCH = 32
_PASSES = 8  # so that batches that are made ahead and dropped hardly count
_LEVELS = np.roll(np.arange(256), 3).astype(np.uint8)


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a sample in the loader with the step, in the loader without it, and in the bare loop."""

    with_step: float
    without: float
    bare: float

    @property
    def overhead(self) -> float:
        """CPU seconds that the loader adds to the step."""
        return self.with_step - self.without - self.bare


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


_COMPILED: list[Any] = []


def _compiled() -> Any:
    """The same function, compiled once."""
    if not _COMPILED:
        import numba

        levels = _LEVELS

        @numba.cfunc("void(CPointer(uint8), int64, int64, CPointer(float64))")
        def curve(rgb: Any, height: int, width: int, values: Any) -> None:
            for k in range(3 * height * width):
                rgb[k] = levels[rgb[k]]

        _COMPILED.append(curve)
    return _COMPILED[0]


def measure(photographs: Path, work: Path, rounds: int) -> dict[str, Cost]:
    """Return the median costs of a sample by what the step is, after an untimed turn of each."""
    stoker.convert(photographs, work / "shards")
    before = [RandomResizedCrop(224), RandomHorizontalFlip()]
    loaders = {name: _loader(work / "shards", [*before, _Add(name), Normalize()]) for name in _steps()}
    plain = _loader(work / "shards", [*before, Normalize()])
    seen = _loader(work / "shards", before, layout="NHWC")
    images = np.concatenate([batch.image for batch in seen])[: 2 * _BATCH].copy()
    theirs = _by_torchvision(photographs) if find_spec("torchvision") else ()
    found: dict[str, list[Cost]] = {name: [] for name in (*loaders, *(["torchvision"] if theirs else []))}
    for _ in range(rounds + 1):
        without = _cpu_seconds(plain)
        for name, loader in loaders.items():
            found[name].append(Cost(_cpu_seconds(loader), without, _bare(name, images)))
        if theirs:
            plain_cost, step_cost = (timed(one).cpu_seconds for one in theirs)
            found["torchvision"].append(Cost(step_cost, plain_cost, _bare("each image", images)))
    return {name: _median(costs[1:]) for name, costs in found.items()}


def _by_torchvision(photographs: Path) -> tuple[TorchvisionViews, TorchvisionViews]:
    """Torchvision's batches without the step, and with it."""
    from ..peers.torchvision import crop_transforms

    workers = len(allowed_cores())
    plain, changed = crop_transforms(224), crop_transforms(224, colors=[_curve_of_tensor])
    return TorchvisionViews(photographs, workers, [plain]), TorchvisionViews(photographs, workers, [changed])


def _curve_of_tensor(pixels: Any) -> Any:
    import torch

    return torch.from_numpy(_LEVELS[pixels.numpy()])


def _loader(dataset: Path, transforms: Any, **options: Any) -> stoker.ImageLoader:
    threads = len(allowed_cores())
    return stoker.ImageLoader(
        dataset, batch_size=_BATCH, transforms=transforms, num_threads=threads, prefetch=2, **options
    )


def _cpu_seconds(loader: stoker.ImageLoader) -> float:
    """Return the CPU seconds of a sample in some passes, without batches of earlier and later passes."""
    discard(loader)
    began, samples = time.process_time(), 0
    for _ in range(_PASSES):
        for batch in loader:
            samples += len(batch[-1])
    seconds = time.process_time() - began
    discard(loader)
    return seconds / samples


def _bare(name: str, images: Pixels) -> float:
    """CPU seconds of an image in a loop that does nothing but call the step, as often as the loader."""
    step = _steps()[name](len(images))
    began = time.process_time()
    if isinstance(step, BatchStep):
        share = _BATCH // len(allowed_cores())
        for first in range(0, len(images), share):
            part = images[first : first + share]
            step.run_batch(np.arange(len(part)), part)
    else:
        for i, pixels in enumerate(images):
            step.run(i, pixels)
    return (time.process_time() - began) / len(images)


def _median(costs: list[Cost]) -> Cost:
    columns = zip(*((one.with_step, one.without, one.bare) for one in costs), strict=True)
    return Cost(*map(statistics.median, columns))


def main() -> None:
    """Run from the command line."""
    args = make_parser(__doc__, "source", "json", rounds=7).parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-custom-steps-") as scratch:
        costs = measure(args.source, Path(scratch), args.rounds)
    table = Table("a step of", "with it", "without", "bare loop", "overhead", title="CPU ms a sample")
    for name, cost in costs.items():
        shown = (cost.with_step, cost.without, cost.bare, cost.overhead)
        table.add_row(name, *(f"{1000 * seconds:.3f}" for seconds in shown))
    Console().print(table)
    figures = {name: {**asdict(cost), "overhead": cost.overhead} for name, cost in costs.items()}
    write_json(args.json, figures)


if __name__ == "__main__":
    main()
