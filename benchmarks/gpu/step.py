"""The program of one step.

    python -m stoker.benchmarks.gpu.step DEVICE SCALE FOLDER FUNCTION [ARGUMENT ...]

It writes its results to the file of the environment variable ``STEP_RESULT``. Its exit status is 3 where the
step cannot run on this machine.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from stoker.benchmarks.gpu.context import Context, Refused
from stoker.benchmarks.gpu.steps import SCALES

__all__ = ["main"]

_HOMES = {
    "machine": "preparation",
    "data": "preparation",
    "smoke": "decoding",
    "decode": "decoding",
    "tests": "preparation",
    "loader": "training",
    "overlap": "training",
    "long_run": "faults",
    "corrupt": "faults",
    "switch": "faults",
    "fork": "faults",
}
"""The module of each function of a step."""


def main() -> None:
    """Run from the command line."""
    device, scale, folder, function, *arguments = sys.argv[1:]
    context = Context(device, SCALES[scale], Path(folder))
    module = importlib.import_module(f"stoker.benchmarks.gpu.programs.{_HOMES[function]}")
    try:
        getattr(module, function)(context, *arguments)
    except Refused as reason:
        context.write({"reason": str(reason)})
        sys.exit(3)


if __name__ == "__main__":
    main()
