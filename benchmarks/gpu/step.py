"""The program of one step.

    python -m stoker.benchmarks.gpu.step CONTEXT FUNCTION [ARGUMENT ...]

It writes its results to the file of the environment variable ``STEP_RESULT``. Its exit status is 3 where the
step cannot run on this machine.
"""

from __future__ import annotations

import importlib
import sys

from .context import Context, Refused

_HOMES = {
    "machine": "preparation",
    "data": "preparation",
    "smoke": "decoding",
    "decode": "decoding",
    "tests": "tests",
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
    context, function, *arguments = sys.argv[1:]
    given = Context.from_json(context)
    try:
        module = importlib.import_module(f"stoker.benchmarks.gpu.programs.{_HOMES[function]}")
        getattr(module, function)(given, *arguments)
    except (Refused, ModuleNotFoundError) as reason:
        given.write({"reason": str(reason)})
        sys.exit(3)


if __name__ == "__main__":
    main()
