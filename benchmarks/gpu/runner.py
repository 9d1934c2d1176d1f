"""The runner of steps: each in a process of its own, with a deadline; results are on disk after each.

A step that crashes, hangs, or leaves CUDA in an error costs itself alone. The files of results are replaced
as a whole after each step, so that they are valid JSON whenever the runner is killed. Its step then ends too.
"""

from __future__ import annotations

import ctypes
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

from stoker.errors import ConfigError

_PR_SET_PDEATHSIG = 1  # prctl(2)
_FOR_STACKS = 5.0  # seconds in which a process on a busy machine writes where its threads are
_FOR_THE_KERNEL = 5.0
"""Seconds for a process that was killed. A fault of a driver can keep it alive, and the runner goes on."""
_LIBRARY = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Let the kernel end this process when its parent ends; for ``preexec_fn`` of ``subprocess.Popen``."""
    _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a group, and the group.

    SIGABRT comes first: Python, with its fault handler, then writes where each thread is.
    """
    for number, seconds in ((signal.SIGABRT, _FOR_STACKS), (signal.SIGKILL, _FOR_THE_KERNEL)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


_HEAD, _TAIL = 1500, 4000
"""Characters that a result keeps of the beginning and the end of what a failed step wrote."""
_LOG = 200_000
"""Characters that the log of a step keeps."""


@dataclass(frozen=True)
class Step:
    """One step of a run."""

    name: str  # Name in the results
    seconds: float  # Deadline, after which its processes are killed
    command: tuple[str, ...]  # Program and arguments
    expected: float = 0.0  # Seconds that it takes by estimate
    again: bool = False  # Whether a later run repeats it: it finds quickly what is there already


def write_json(path: Path, value: Any) -> None:
    """Write JSON to a file, which is replaced as a whole."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(value, indent=1) + "\n")
    unfinished.replace(path)


def ends(text: str, head: int, tail: int) -> str:
    """The beginning and the end of a text, in so many characters each."""
    if len(text) <= head + tail:
        return text
    return f"{text[:head]}\n[{len(text) - head - tail} characters are left out]\n{text[-tail:]}"


class ResultsFile:
    """The results of the steps so far, in a file and its copy."""

    def __init__(
        self,
        path: Path,
        about: dict[str, Any],
        copy: Path | None = None,
        run: dict[str, Any] | None = None,
    ) -> None:
        self.path = path
        self._paths = [path] if copy in (None, path) else [path, copy]
        self._about = about
        self._runs = [run or {}]
        self.steps: dict[str, dict[str, Any]] = {}
        for file in self._paths:
            if file is not None and file.exists():
                document = json.loads(file.read_text())
                _check_same_conditions(document, about, file)
                self.steps = document["steps"]
                self._runs = [*document.get("runs", []), *self._runs]
                break

    def add(self, name: str, result: dict[str, Any]) -> None:
        self.steps[name] = result
        for file in self._paths:
            if file is not None:
                write_json(file, {**self._about, "runs": self._runs, "steps": self.steps})

    def is_final(self, name: str) -> bool:
        return self.steps.get(name, {}).get("outcome") == "done"


def _check_same_conditions(document: dict[str, Any], about: dict[str, Any], path: Path) -> None:
    for name, found, given in (
        ("device", document.get("device"), about.get("device")),
        ("scale", document.get("scale"), about.get("scale")),
        ("GPU", document.get("machine", {}).get("gpu"), about.get("machine", {}).get("gpu")),
    ):
        if found != given:
            raise ConfigError(
                f"these are results of {name} {found!r}, and this run has {given!r}",
                path=path,
                hint="Name another file or folder, or remove this file.",
            )


def run_steps(
    steps: Sequence[Step],
    results: ResultsFile,
    seconds: float,
    folder: Path,
    *,
    report: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run steps in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    end = clock() + seconds
    for step in steps:
        is_final, left = results.is_final(step.name), end - clock()
        if is_final and (left <= 1 or not step.again):
            continue
        result: dict[str, Any] = {"outcome": "no time"}
        if left > 1:
            results.add(step.name, {"outcome": "begun"})
            result = _run(step, min(step.seconds, left), folder, clock)
        results.add(step.name, result)
        report(f"{result.get('seconds', 0):6.1f} s  {result['outcome']:<9}  {step.name}")


def _run(step: Step, seconds: float, folder: Path, clock: Callable[[], float]) -> dict[str, Any]:
    """Run a step until its deadline, and return its outcome and its results, even if it failed later."""
    # A step of an earlier runner that is still there writes to other files.
    own = f"{step.name.replace(' ', '-')}.{os.getpid()}"
    found_file, log = folder / f"{own}.json", folder / f"{own}.log"
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1", "STEP_RESULT": str(found_file)}
    began = clock()
    with log.open("wb") as said:
        process = subprocess.Popen(
            step.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes one system call
        )
        try:
            outcome = _outcome(process.wait(seconds))
        except subprocess.TimeoutExpired:
            outcome = "timed out"
        finally:
            if process.returncode is None:
                stop(process)
            with suppress(ProcessLookupError):  # workers of loaders belong to the group
                os.killpg(process.pid, signal.SIGKILL)
    result: dict[str, Any] = {"outcome": outcome, "seconds": round(clock() - began, 2)}
    if found_file.exists():
        result["found"] = json.loads(found_file.read_text())
    text = log.read_text(errors="replace")
    log.write_text(ends(text, _LOG // 2, _LOG // 2))
    if outcome != "done":
        result["status"] = process.returncode
        result["said"] = ends(text, _HEAD, _TAIL)
    return result


def _outcome(status: int) -> str:
    if status < 0:
        return "crashed"
    return {0: "done", 3: "refused"}.get(status, "failed")
