"""Steps that run loaders: alone, and with a training step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import repeat
from time import perf_counter
from typing import Any

import torch

from stoker.benchmarks.comparison.usage import usage_of_tree
from stoker.benchmarks.gpu.context import Context, Refused
from stoker.benchmarks.gpu.loaders import make_batches
from stoker.benchmarks.gpu.usage import GpuUsage

Step = Callable[[Any, Any], None]

__all__ = ["loader", "overlap"]

_WARM_UP = 5


def loader(context: Context, dataset: str, name: str) -> None:
    """Measure one loader alone: rate, CPU time, use of the GPU, and the time of the first batch."""
    began = perf_counter()
    batches = make_batches(name, context, context.dataset(dataset))
    next(batches)
    context.wait()
    first = perf_counter() - began
    with GpuUsage(context.device) as gpu:
        cpu = usage_of_tree(os.getpid()).cpu_seconds
        images, seconds = _run(context, batches, _nothing)
        cpu = usage_of_tree(os.getpid()).cpu_seconds - cpu
    context.write(
        {
            "loader": name,
            "dataset": dataset,
            "images_per_second": round(images / seconds, 1),
            "cpu_seconds_per_1000": round(1000 * cpu / images, 3),
            "first_batch_seconds": round(first, 3),
            **gpu.found(),
        }
    )


def overlap(context: Context, network: str, name: str) -> None:
    """Measure a training step, a loader, and both together."""
    step = _training_step(context, network)
    batches = make_batches(name, context, context.dataset("imagenet"))
    one = next(batches)
    found: dict[str, Any] = {"network": network, "loader": name}
    for part, (given, work) in {
        "step": (repeat(one), step),
        "loader": (batches, _nothing),
        "both": (batches, step),
    }.items():
        images, seconds = _run(context, given, work)
        found[part] = round(images / seconds, 1)
        context.write(found)
    found["share_of_the_smaller"] = round(found["both"] / min(found["step"], found["loader"]), 3)
    context.write(found)


def _run(context: Context, batches: Iterator[tuple[Any, Any]], step: Step) -> tuple[int, float]:
    """Images and seconds of at least the scale's seconds, after a few batches that are not timed."""
    images, began = 0, 0.0
    for number, (image, label) in enumerate(batches):
        step(image, label)
        if number < _WARM_UP:
            context.wait()
            began = perf_counter()
            continue
        images += len(label)
        if perf_counter() - began >= context.scale.seconds:
            break
    context.wait()
    return images, perf_counter() - began


def _nothing(images: Any, labels: Any) -> None:
    """A step that takes no time."""


def _training_step(context: Context, name: str) -> Step:
    """A step of a network of torchvision in bfloat16, with channels last."""
    try:
        from torchvision import models
    except ImportError as error:
        raise Refused(str(error)) from error
    network = getattr(models, name)().to(context.device).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    forward = torch.compile(network) if context.scale.compiles else network
    kind = context.device.partition(":")[0]

    def step(images: Any, labels: Any) -> None:
        with torch.autocast(kind, dtype=torch.bfloat16):
            # NHWC in memory is NCHW with channels last: this view copies nothing.
            loss = torch.nn.functional.cross_entropy(forward(images.permute(0, 3, 1, 2)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
