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


_TIMES: Mapping[str, tuple[tuple[float, float], ...]] = {
    "machine": ((90, 15), (50, 15), (60, 3)),
    "data": ((120, 30), (50, 25), (120, 10)),
    "smoke": ((60, 9), (22, 9), (60, 5)),
    "decode": ((120, 50), (40, 18), (90, 9)),
    "loader": ((75, 15), (26, 12), (75, 10)),
    "tests": ((180, 150), (70, 60), (270, 150)),
    "overlap": ((200, 75), (100, 40), (150, 60)),
    "corrupt": ((90, 20), (40, 20), (90, 20)),
    "fork": ((90, 12), (40, 12), (90, 8)),
    "switch": ((90, 10), (40, 10), (90, 8)),
    "long_run": ((120, 45), (60, 25), (120, 20)),
}
"""Deadlines and estimates of steps at the scales "full", "short" and "rehearsal"."""


def _times(scale: int) -> Times:
    return {name: times[scale] for name, times in _TIMES.items()}


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
    times=_times(0),
)
_REHEARSAL = Scale(
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
    times=_times(2),
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
        times=_times(1),
    ),
    "rehearsal": _REHEARSAL,
    "tiny": replace(
        _REHEARSAL,
        images=24,
        side=32,
        seconds=0.01,
        rounds=1,
        loads=(1.0,),
        threads=(1,),
        long_run=9,
        tests=2,
        times=dict.fromkeys(_TIMES, (120, 5)),
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
        device, scale, *paths = json.loads(text)
        return cls(device, scale, *map(Path, paths))

    def to_json(self) -> str:
        return json.dumps([str(value) for value in asdict(self).values()])

    @property
    def scale(self) -> Scale:
        return SCALES[self.scale_name]

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def gpu_number(self) -> int:
        return int(self.device.partition(":")[2] or 0)

    @property
    def photographs(self) -> Path:
        return self.root / _PHOTOGRAPHS

    @property
    def tests(self) -> Path:
        return self.root / _TESTS

    def made(self, name: str) -> Path:
        found = self.results().get("data", {}).get("found", {}).get(name)
        if not found:
            raise Refused("the datasets were not made")
        return self.work / str(found)

    def results(self) -> dict[str, Any]:
        steps: dict[str, Any] = json.loads(self.results_file.read_text())["steps"]
        return steps

    def decoding(self) -> dict[str, Any]:
        best = best_decoding(self.results())
        if best is None:
            raise Refused("no way to decode has passed the smoke test")
        return best

    def dali_options(self) -> stoker.DaliOptions:
        import stoker

        best = self.decoding()
        return stoker.DaliOptions(region_decode=best["region"], hw_decoder_load=best["load"])

    def write(self, found: dict[str, Any]) -> None:
        write_json(Path(os.environ["STEP_RESULT"]), found)

    def wait(self) -> None:
        if self.on_gpu:
            import torch

            torch.cuda.synchronize(self.device)
