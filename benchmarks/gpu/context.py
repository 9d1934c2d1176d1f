"""The context of a step: its device, its sizes, and the results of the steps before."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stoker
from stoker.benchmarks.gpu.runner import write_json
from stoker.benchmarks.gpu.steps import Scale, best_decoding

__all__ = ["Context", "Refused"]


class Refused(Exception):  # noqa: N818 - the reason of a result, no error
    """A step cannot run on this machine; the message is the reason."""


@dataclass(frozen=True)
class Context:
    """The device, the sizes and the folder of a step.

    Attributes:
        device: "cuda:N", or "cpu" in a rehearsal.
        scale: Sizes of the run.
        folder: Folder of the datasets and the results.
    """

    device: str
    scale: Scale
    folder: Path

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device != "cpu"

    def dataset(self, name: str) -> Path:
        """Folder of a dataset.

        Raises:
            Refused: The step that makes it has not succeeded.
        """
        found = self.results().get("data", {}).get("found", {}).get(name)
        if not found:
            raise Refused("the datasets were not made")
        return self.folder / str(found)

    def results(self) -> dict[str, Any]:
        """Results of the steps so far, by name."""
        steps: dict[str, Any] = json.loads((self.folder / "results.json").read_text())["steps"]
        return steps

    def decoding(self) -> dict[str, Any]:
        """The best way to decode so far, see :func:`best_decoding`.

        Raises:
            Refused: No way has passed the smoke test.
        """
        best = best_decoding(self.results())
        if best is None:
            raise Refused("no way to decode has passed the smoke test")
        return best

    def dali_options(self) -> stoker.DaliOptions:
        """Options of the DALI engine for the best way to decode."""
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
