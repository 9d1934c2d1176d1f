"""The context of a step: its device, its sizes, its folders, and the results of the steps before."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.benchmarks.gpu.runner import write_json
from stoker.benchmarks.gpu.scales import SCALES, Scale
from stoker.benchmarks.gpu.ways import best_decoding
from stoker.errors import SourceError

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
