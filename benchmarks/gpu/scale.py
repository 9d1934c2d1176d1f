"""The sizes of a run: of an hour on a GPU, of its rehearsal on a CPU, and of a test of the rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SCALES", "Scale"]


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
