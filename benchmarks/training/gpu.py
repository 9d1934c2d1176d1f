"""The rates of loaders that feed a GPU, alone and with a training step.

The training step is ResNet-50 in bfloat16 with channels last. With perfect overlap, loader and step together
are as fast as the slower of the two alone.

    python -m stoker.benchmarks.training.gpu shards/train --json gpu.json
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.sources import open_source
from stoker.benchmarks.report.machine import allowed_cores, describe
from stoker.benchmarks.training.gpu_loaders import LOADERS, SIZE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from torch import nn

__all__ = ["main"]

_WARM_UP = 5


def _loader(dataset: str, engine: str, batch_size: int) -> stoker.ImageLoader:
    return stoker.ImageLoader(
        dataset,
        batch_size=batch_size,
        shuffle=True,
        last_batch="drop",
        engine=engine,
        device="cuda:0",
        output="torch",
        dtype="bfloat16",
        layout="NHWC",
        transforms=[RandomResizedCrop(SIZE), RandomHorizontalFlip(), Normalize()],
    )


def _endless(loader: Iterable[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def _rate(step: Callable[[Any, Any], None], batches: Iterable[Any], count: int) -> float:
    """Return images per second over ``count`` batches, after a few untimed ones."""
    images = 0
    began = 0.0
    for number, (image, label) in enumerate(batches):
        if number == _WARM_UP:
            torch.cuda.synchronize()
            began = perf_counter()
        if number >= _WARM_UP:
            images += len(label)
        step(image, label)
        if number == _WARM_UP + count - 1:
            break
    else:
        raise RuntimeError("the loader ended before all batches were measured")
    torch.cuda.synchronize()
    return images / (perf_counter() - began)


def _training_step(num_classes: int) -> Callable[[Any, Any], None]:
    from torchvision.models import resnet50

    network: nn.Module = resnet50(num_classes=num_classes).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)

    def step(images: Any, labels: Any) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            # NHWC in memory is NCHW with channels last: this view copies nothing.
            loss = torch.nn.functional.cross_entropy(network(images.permute(0, 3, 1, 2)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def _nothing(images: Any, labels: Any) -> None:
    """Do nothing: a step that takes no time."""


class _Rates:
    """Images per second by name, printed and written at once, so that a stopped run keeps its results."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[str, float | str] = {}

    def measure(self, name: str, measured: Callable[[], float]) -> None:
        """Measure a rate; a failure is kept as the result, so that the others are measured."""
        try:
            rate: float | str = measured()
        except Exception as error:  # any failure is a result
            rate = f"{type(error).__name__}: {error}"
        self._found[name] = rate
        print(f"{name:36} {rate if isinstance(rate, str) else f'{rate:10,.0f} images/s'}", flush=True)
        if self._path:
            gpu = torch.cuda.get_device_name()
            machine = {**describe(allowed_cores()), "gpu": gpu}
            result = {"machine": machine, "images_per_second": self._found}
            self._path.write_text(json.dumps(result, indent=1) + "\n")


def _measure_own(rates: _Rates, options: argparse.Namespace, step: Callable[[Any, Any], None]) -> None:
    def rate(engine: str, step: Callable[[Any, Any], None]) -> float:
        with _loader(options.dataset, engine, options.batch_size) as loader:
            found = _rate(step, _endless(loader), options.batches)
            print(loader.stats().verdict)
        return found

    for engine in ("dali", "native"):
        rates.measure(f"{engine} alone", partial(rate, engine, _nothing))
        rates.measure(f"{engine} and step", partial(rate, engine, step))


def _measure_others(rates: _Rates, options: argparse.Namespace, step: Callable[[Any, Any], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        source = open_source(options.dataset, Path(scratch))
        for name, batches in LOADERS.items():
            fed = batches(source, options.batch_size, torch.device("cuda:0"), len(allowed_cores()))
            rates.measure(f"{name}, alone", partial(_rate, _nothing, fed, options.batches))
            rates.measure(f"{name}, and step", partial(_rate, step, fed, options.batches))


def main() -> None:
    """Run from the command line; loaders run one after another."""
    parser = make_parser(__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    dataset = stoker.open(options.dataset)
    if len(dataset) < options.batch_size:
        parser.error(f"{len(dataset)} samples do not fill a batch of {options.batch_size}")
    step = _training_step(dataset.num_classes)
    with _loader(options.dataset, "native", options.batch_size) as loader:
        one = tuple(next(iter(loader)))
    rates = _Rates(options.json)
    rates.measure("step alone", lambda: _rate(step, repeat(one), options.batches))
    _measure_own(rates, options, step)
    _measure_others(rates, options, step)


if __name__ == "__main__":
    main()
