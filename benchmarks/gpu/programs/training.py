"""Steps that run loaders: alone, and with a training step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter
from typing import Any

import torch

from stoker.benchmarks.comparison.usage import usage_of_tree
from stoker.benchmarks.gpu.loaders import burst, make_batches
from stoker.benchmarks.gpu.usage import GpuUsage

from ..context import Context, Refused

Step = Callable[[Any, Any], None]

_WARM_UP = 5


@dataclass(frozen=True)
class Measured:
    """What a measurement found, all of it after the warm-up."""

    images: int  # Images that were handed out
    seconds: float  # Seconds for these
    cpu_seconds: float  # Time of this process and its workers on all cores
    gpu: dict[str, float]  # Use of the GPU, see :meth:`GpuUsage.found`

    @property
    def rate(self) -> float:
        return round(self.images / self.seconds, 1)


def loader(context: Context, dataset: str, name: str) -> None:
    """Measure one loader alone: rate, CPU time, use of the GPU, and the time of the first batch."""
    began = perf_counter()
    batches = make_batches(name, context, context.made(dataset))
    next(batches)
    context.wait()
    first = perf_counter() - began
    context.write({"loader": name, "dataset": dataset, "first_batch_seconds": round(first, 3)})
    found = measure(context, batches, _nothing, burst(name))
    context.write(
        {
            "loader": name,
            "dataset": dataset,
            "images_per_second": found.rate,
            "cpu_seconds_per_1000": round(1000 * found.cpu_seconds / found.images, 3),
            "first_batch_seconds": round(first, 3),
            **found.gpu,
        }
    )


def overlap(context: Context, network: str, name: str) -> None:
    """Measure a training step, a loader, and both together."""
    step = _training_step(context, network)
    batches = make_batches(name, context, context.made("imagenet"))
    one = next(batches)
    found: dict[str, Any] = {"network": network, "loader": name}
    parts = {"step": (repeat(one), step), "loader_alone": (batches, _nothing), "both": (batches, step)}
    for part, (given, work) in parts.items():
        measured = measure(context, given, work)
        found[part] = measured.rate
        found |= {f"{part}_{key}": value for key, value in measured.gpu.items()}
        context.write(found)
    found["share_of_the_smaller"] = round(found["both"] / min(found["step"], found["loader_alone"]), 3)
    context.write(found)


def measure(context: Context, batches: Iterator[tuple[Any, Any]], step: Step, together: int = 1) -> Measured:
    """Hand batches to a step for at least the scale's seconds, after a few that do not count."""
    for _ in range(2 * together if together > 1 else _WARM_UP):
        step(*next(batches))
    context.wait()
    images = count = 0
    with GpuUsage(context.device) as gpu:
        cpu, began = usage_of_tree(os.getpid()).cpu_seconds, perf_counter()
        while not count or count % together or perf_counter() - began < context.scale.seconds:
            image, label = next(batches)
            step(image, label)
            images += len(label)
            count += 1
        context.wait()
        seconds, cpu = perf_counter() - began, usage_of_tree(os.getpid()).cpu_seconds - cpu
    return Measured(images, seconds, cpu, gpu.found())


def _nothing(images: Any, labels: Any) -> None:
    """A step that takes no time."""


def _training_step(context: Context, name: str) -> Step:
    """A step of a network of torchvision, with channels last: in bfloat16, and on the CPU in float32.

    A CPU without instructions for bfloat16 takes five times as long for it, and threads that share its cores
    with a loader wait for each other.
    """
    try:
        from torchvision import models
    except ImportError as error:
        raise Refused(str(error)) from error
    torch.backends.cudnn.benchmark = True  # sizes do not change
    if not context.on_gpu:
        torch.set_num_threads(1)
    network = getattr(models, name)().to(context.device).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    forward = torch.compile(network) if context.scale.compiles else network
    kind = context.device.partition(":")[0]

    def step(images: Any, labels: Any) -> None:
        given = images if context.on_gpu else images.float()
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=context.on_gpu):
            # NHWC in memory is NCHW with channels last: this view copies nothing.
            loss = torch.nn.functional.cross_entropy(forward(given.permute(0, 3, 1, 2)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
