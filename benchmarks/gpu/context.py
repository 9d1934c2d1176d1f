"""The context of a step: its device, its sizes, its folders, and the results of the steps before."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.errors import SourceError

from .runner import write_json

Results = Mapping[str, Mapping[str, Any]]

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

SMOKE_LOADS = (0.0, 0.65, 1.0)
"""Shares that the smoke test tries: CUDA alone, both, the JPEG engines alone."""


def smoke_name(region: bool, load: float) -> str:
    """Name of the step that first decodes in this way."""
    return f"smoke {'region' if region else 'full'} {load:g}"


def has_passed(steps: Results, region: bool, load: float) -> bool:
    """Whether the smoke test of a way has passed. That of 0.65 stands for all shares between 0 and 1."""
    tried = load if load in (0.0, 1.0) else 0.65
    found = steps.get(smoke_name(region, tried), {}).get("found", {})
    return bool(found.get("passed"))


def exact_loads(steps: Results, region: bool) -> tuple[float, ...]:
    """The shares that passed with which an image has the same pixels in every batch."""
    return tuple(load for load in (0.0, 1.0) if has_passed(steps, region, load))


def best_decoding(steps: Results) -> dict[str, Any] | None:
    """The way to decode for later steps: the fastest so far that passed the smoke test."""
    rows: list[dict[str, Any]] = [
        row
        for step in steps.values()
        for row in step.get("found", {}).get("decode", [])
        if has_passed(steps, row["region"], row["load"])
    ]
    if rows:
        return max(rows, key=lambda row: float(row["images_per_second"]))
    passed = [
        (region, load) for region in (False, True) for load in SMOKE_LOADS if has_passed(steps, region, load)
    ]
    if not passed:
        return None
    region, load = min(passed)  # whole images, and the least share
    return {"region": region, "load": load}


if TYPE_CHECKING:
    import stoker

_PHOTOGRAPHS = Path("examples", "photos", "train")
_TESTS = Path("tests", "gpu")


class Refused(Exception):  # noqa: N818 - the reason of a result, no error
    """A step cannot run on this machine; the message is the reason."""


def find_root(given: Path | None) -> Path:
    """The folder of Stoker's sources, which hold the photographs and the tests; packages hold neither."""
    choices: Sequence[Path] = [given] if given else [Path.cwd(), Path(__file__).resolve().parents[2]]
    for folder in choices:
        if (folder / _PHOTOGRAPHS).is_dir() and (folder / _TESTS).is_dir():
            return folder.resolve()
    raise SourceError(
        f"this folder does not hold {_PHOTOGRAPHS} and {_TESTS}",
        path=choices[0],
        hint="Name the folder of Stoker's sources with --root.",
    )


@dataclass(frozen=True)
class Context:
    """The device, the sizes and the folders of a step."""

    device: str  # "cuda:N", or "cpu" in a rehearsal
    scale_name: str  # Name of the sizes of the run
    work: Path  # Folder of the datasets
    root: Path  # Folder of Stoker's sources
    results_file: Path  # File of the results of all steps

    @classmethod
    def from_json(cls, text: str) -> Context:
        """The context that :meth:`to_json` wrote."""
        device, scale, *paths = json.loads(text)
        return cls(device, scale, *map(Path, paths))

    def to_json(self) -> str:
        """The context as a text, for the command line of a step."""
        return json.dumps([str(value) for value in asdict(self).values()])

    @property
    def scale(self) -> Scale:
        """Sizes of the run."""
        return SCALES[self.scale_name]

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device != "cpu"

    @property
    def gpu_number(self) -> int:
        """CUDA's number of the GPU."""
        return int(self.device.partition(":")[2] or 0)

    @property
    def photographs(self) -> Path:
        """Folder of the photographs, with one folder for each class."""
        return self.root / _PHOTOGRAPHS

    @property
    def tests(self) -> Path:
        """Folder of the tests on a GPU."""
        return self.root / _TESTS

    def made(self, name: str) -> Path:
        """A dataset, or another file or folder that the step "data" makes, by its name."""
        found = self.results().get("data", {}).get("found", {}).get(name)
        if not found:
            raise Refused("the datasets were not made")
        return self.work / str(found)

    def results(self) -> dict[str, Any]:
        """Results of the steps so far, by name."""
        steps: dict[str, Any] = json.loads(self.results_file.read_text())["steps"]
        return steps

    def decoding(self) -> dict[str, Any]:
        """The best way to decode so far, see :func:`best_decoding`."""
        best = best_decoding(self.results())
        if best is None:
            raise Refused("no way to decode has passed the smoke test")
        return best

    def dali_options(self) -> stoker.DaliOptions:
        """Options of the DALI engine for the best way to decode."""
        import stoker

        best = self.decoding()
        return stoker.DaliOptions(region_decode=best["region"], hw_decoder_load=best["load"])

    def write(self, found: dict[str, Any]) -> None:
        """Write the results of the step so far."""
        write_json(Path(os.environ["STEP_RESULT"]), found)

    def wait(self) -> None:
        """Wait for the GPU."""
        if self.on_gpu:
            import torch

            torch.cuda.synchronize(self.device)
