"""The sizes of a run on a GPU, and the time of each kind of step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

Times = Mapping[str, tuple[float, float]]
"""Deadline of a step and the seconds that it takes by estimate, by the function of the step."""


@dataclass(frozen=True)
class Scale:
    """The sizes of a run."""

    images: int  # Samples of each dataset
    batch_size: int  # Samples of a batch
    side: int  # Height and width of the output, pixels
    seconds: float  # Seconds of one measurement
    rounds: int  # Interleaved measurements of each loader
    loads: tuple[float, ...]  # Shares of the JPEG engines in the sweep
    threads: tuple[int, ...]  # Threads of DALI in the sweep
    long_run: int  # Batches of the run in which memory is watched
    networks: tuple[str, ...]  # Networks of the training step, of torchvision
    compiles: bool  # Whether the training step is compiled
    tests: int  # Seconds for the tests
    times: Times  # Deadlines and estimates


_FULL = Scale(
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
    times={
        "machine": (90, 15),
        "data": (120, 30),
        "smoke": (60, 9),
        "decode": (120, 50),
        "loader": (75, 15),
        "tests": (180, 150),
        "overlap": (200, 75),
        "corrupt": (90, 20),
        "fork": (90, 12),
        "switch": (90, 10),
        "long_run": (120, 45),
    },
)
SCALES = {
    "full": _FULL,
    # For a machine that is rented by the minute: what matters most ends within nine minutes even where every
    # step runs into its deadline.
    "short": replace(
        _FULL,
        seconds=2.0,
        loads=(0.0, 0.65, 1.0),
        threads=(16,),
        long_run=400,
        networks=("resnet50",),
        tests=60,
        times={
            "machine": (50, 15),
            "data": (50, 25),
            "smoke": (22, 9),
            "decode": (40, 18),
            "loader": (26, 12),
            "tests": (70, 60),
            "overlap": (100, 40),
            "corrupt": (40, 20),
            "fork": (40, 12),
            "switch": (40, 10),
            "long_run": (60, 25),
        },
    ),
    "rehearsal": Scale(
        images=256,
        batch_size=8,
        side=64,
        seconds=1.0,
        rounds=3,
        loads=(0.0, 0.65, 1.0),
        threads=(1, 2),
        long_run=40,
        networks=("resnet18",),
        compiles=False,
        tests=240,
        times={
            "machine": (60, 3),
            "data": (120, 10),
            "smoke": (60, 5),
            "decode": (90, 9),
            "loader": (75, 10),
            "tests": (270, 150),
            "overlap": (150, 60),
            "corrupt": (90, 20),
            "fork": (90, 8),
            "switch": (90, 8),
            "long_run": (120, 20),
        },
    ),
    "tiny": Scale(
        images=24,
        batch_size=8,
        side=32,
        seconds=0.01,
        rounds=1,
        loads=(1.0,),
        threads=(1,),
        long_run=9,
        networks=("resnet18",),
        compiles=False,
        tests=2,
        times=dict.fromkeys(_FULL.times, (120, 5)),
    ),
}
"""All scales by name: "full" and "short" for a GPU, "rehearsal" for two CPU cores, "tiny" for tests."""
