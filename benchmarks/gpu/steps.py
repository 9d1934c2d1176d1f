"""The steps of a run on a GPU, the most telling first, and the sizes of a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.benchmarks.gpu.runner import Step

__all__ = ["LOADERS", "SCALES", "SMOKE_LOADS", "Scale", "best_decoding", "planned_steps", "smoke_name"]

SMOKE_LOADS = (0.0, 0.65, 1.0)
LOADERS = ("stoker-dali", "stoker-native", "stoker-native-uint8", "dali", "torchvision", "torchvision-cuda")
"""The loaders that are compared, see :mod:`stoker.benchmarks.gpu.loaders`."""


@dataclass(frozen=True)
class Scale:
    """The sizes of a run.

    Attributes:
        images: Samples of each dataset.
        batch_size: Samples of a batch.
        side: Height and width of the output, pixels.
        seconds: Seconds of one measurement.
        rounds: Interleaved measurements of each loader.
        loads: Shares of the JPEG engines in the sweep.
        threads: Threads of DALI in the sweep.
        long_run: Batches of the run in which memory is watched.
        networks: Networks of the training step, of torchvision.
        compiles: Whether the training step is compiled.
        tests: Seconds for the tests.
    """

    images: int
    batch_size: int
    side: int
    seconds: float
    rounds: int
    loads: tuple[float, ...]
    threads: tuple[int, ...]
    long_run: int
    networks: tuple[str, ...]
    compiles: bool
    tests: int


SCALES = {
    "full": Scale(
        images=2048,
        batch_size=256,
        side=224,
        seconds=5.0,
        rounds=3,
        loads=(0.0, 0.5, 0.65, 0.8, 0.9, 1.0),
        threads=(8, 16),
        long_run=1000,
        networks=("resnet18", "resnet50"),
        compiles=True,
        tests=150,
    ),
    "rehearsal": Scale(
        images=256,
        batch_size=16,
        side=96,
        seconds=1.0,
        rounds=3,
        loads=(0.0, 0.65, 1.0),
        threads=(1, 2),
        long_run=30,
        networks=("resnet18",),
        compiles=False,
        tests=60,
    ),
    "tiny": Scale(
        images=24,
        batch_size=8,
        side=32,
        seconds=0.01,
        rounds=1,
        loads=(1.0,),
        threads=(1,),
        long_run=3,
        networks=("resnet18",),
        compiles=False,
        tests=20,
    ),
}
"""All scales by name: "full" for a GPU, "rehearsal" for two CPU cores, "tiny" for tests."""


def smoke_name(region: bool, load: float) -> str:
    """Name of the step that first decodes in this way."""
    return f"smoke {'region' if region else 'full'} {load:g}"


def planned_steps(device: str, scale: str, folder: Path) -> list[Step]:
    """All steps in their order.

    Args:
        device: "cuda:N", or "cpu" for a rehearsal.
        scale: Name of a scale.
        folder: Folder of the datasets and the results.
    """
    sizes = SCALES[scale]

    def step(name: str, seconds: float, function: str, *arguments: object) -> Step:
        module = ("-X", "faulthandler", "-m", "stoker.benchmarks.gpu.step", device, scale, str(folder))
        return Step(name, seconds, (sys.executable, *module, function, *map(str, arguments)))

    steps = [step("machine", 60, "machine"), step("data", 120, "data")]
    steps += [
        step(smoke_name(region, load), 60, "smoke", int(region), load)
        for load in SMOKE_LOADS
        for region in (False, True)
    ]
    steps += [
        step(f"decode {'region' if region else 'full'} {threads} threads", 90, "decode", int(region), threads)
        for threads in sizes.threads
        for region in (False, True)
    ]
    steps.append(step("tests", sizes.tests + 30, "tests", sizes.tests))
    steps += [
        step(f"round {number + 1} {dataset} {loader}", 60 + 3 * sizes.seconds, "loader", dataset, loader)
        for dataset in ("imagenet", "raw256")
        for number in range(sizes.rounds)
        for loader in LOADERS
        if dataset == "imagenet" or loader.startswith("stoker")
    ]
    steps += [
        step(f"overlap {network} {loader}", 150, "overlap", network, loader)
        for network in sizes.networks
        for loader in ("stoker-dali", "stoker-native", "stoker-native-uint8")
    ]
    return [
        *steps,
        step("long run", 120, "long_run"),
        step("corrupt", 90, "corrupt"),
        step("switch", 90, "switch"),
        step("fork", 90, "fork"),
    ]


def best_decoding(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The way to decode for later steps: the fastest so far that passed the smoke test.

    Args:
        steps: Results so far, by the name of the step.

    Returns:
        ``region`` (bool), ``load`` and, once measured, ``images_per_second`` and ``threads``; None if no way
        passed.
    """
    passed = {
        (region, load)
        for region in (False, True)
        for load in SMOKE_LOADS
        if steps.get(smoke_name(region, load), {}).get("found", {}).get("passed")
    }
    if not passed:
        return None
    safe = {region for region, _ in passed}
    rows = [row for step in steps.values() for row in _decode_rows(step) if row["region"] in safe]
    if rows:
        return max(rows, key=lambda row: float(row["images_per_second"]))
    region, load = min(passed)  # whole images, and the least share
    return {"region": region, "load": load}


def _decode_rows(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = step.get("found", {})
    return found.get("decode", []) if isinstance(found, dict) else []
