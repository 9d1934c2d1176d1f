"""The runner of steps: each in a process of its own, with a deadline; results are on disk after each.

A step that crashes, hangs, or leaves CUDA in an error costs itself alone. The file of results is replaced as
a whole after each step, so that it is valid JSON whenever the runner is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ResultsFile", "Step", "run_steps", "write_json"]

_SAID = 2000
"""Characters that are kept of the end of what a step wrote to its standard error."""


@dataclass(frozen=True)
class Step:
    """One step of a run.

    Attributes:
        name: Name in the results.
        seconds: Deadline, after which its processes are killed.
        command: Program and arguments. The program writes its results as JSON by :func:`write_json` to the
            file of the environment variable ``STEP_RESULT``, again whenever it has more.
    """

    name: str
    seconds: float
    command: tuple[str, ...]


def write_json(path: Path, value: Any) -> None:
    """Write JSON to a file, which is replaced as a whole."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(value, indent=1) + "\n")
    unfinished.replace(path)


class ResultsFile:
    """The results of the steps so far, in a file.

    Args:
        path: The file; the results of an earlier run stay in it.
        about: Facts that are written before the results, such as the machine.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self._about = about
        self.steps: dict[str, dict[str, Any]] = {}
        if path.exists():
            self.steps = json.loads(path.read_text())["steps"]

    def add(self, name: str, result: dict[str, Any]) -> None:
        """Add the result of a step, or replace it."""
        self.steps[name] = result
        write_json(self.path, {**self._about, "steps": self.steps})

    def is_final(self, name: str) -> bool:
        """Whether a step has succeeded, so that it is not run again."""
        return self.steps.get(name, {}).get("outcome") == "done"


def run_steps(
    steps: Sequence[Step],
    results: ResultsFile,
    seconds: float,
    report: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run steps in their order.

    Args:
        steps: The steps. Steps that an earlier run has finished are left out.
        results: File of the results.
        seconds: Seconds for all steps. A step gets at most the remaining time; steps without any are noted
            as "no time".
        report: Called with a line of text after each step.
        clock: Returns seconds.
    """
    end = clock() + seconds
    for step in steps:
        if results.is_final(step.name):
            continue
        left = end - clock()
        result: dict[str, Any] = {"outcome": "no time"}
        if left > 1:
            results.add(step.name, {"outcome": "begun"})
            result = _run(step, min(step.seconds, left), results.path.parent, clock)
        results.add(step.name, result)
        report(f"{result.get('seconds', 0):6.1f} s  {result['outcome']:<9}  {step.name}")


def _run(step: Step, seconds: float, folder: Path, clock: Callable[[], float]) -> dict[str, Any]:
    """Run a step until its deadline, and return its outcome and its results, even if it failed later."""
    found_file, said_file = folder / "step.json", folder / "step.err"
    found_file.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1", "STEP_RESULT": str(found_file)}
    began = clock()
    with said_file.open("wb") as said:
        process = subprocess.Popen(
            step.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            outcome = _outcome(process.wait(seconds))
        except subprocess.TimeoutExpired:
            outcome = "timed out"
        finally:
            with suppress(ProcessLookupError):  # workers of loaders belong to the group
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    result: dict[str, Any] = {"outcome": outcome, "seconds": round(clock() - began, 2)}
    if found_file.exists():
        result["found"] = json.loads(found_file.read_text())
    if outcome != "done":
        result["status"] = process.returncode
        result["said"] = said_file.read_text(errors="replace")[-_SAID:]
    return result


def _outcome(status: int) -> str:
    if status < 0:
        return "crashed"
    return {0: "done", 3: "refused"}.get(status, "failed")
