"""The measurements on a GPU, with the CPU in its place, whose runner is killed in each of their steps."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("nvidia.dali")

from stoker.benchmarks.gpu.context import Context
from stoker.benchmarks.gpu.runner import Step
from stoker.benchmarks.gpu.steps import planned_steps

SOURCES = Path(__file__).parents[2]
LETHAL = """
import os, signal, sys
from stoker.benchmarks.gpu.context import Context
write = Context.write
def write_and_kill(context, found):
    write(context, found)
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()  # until the kernel ends this process, too
Context.write = write_and_kill
from stoker.benchmarks.gpu.step import main
main()
"""
"""A step that kills its runner as soon as it has written some of its results."""


def lethal(step: Step) -> Step:
    arguments = step.command[step.command.index("stoker.benchmarks.gpu.step") + 1 :]
    return replace(step, command=(sys.executable, "-c", LETHAL, *arguments))


def run(context: Context, steps: list[Step]) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status of a runner, and the results that it leaves."""
    program = f"""
from stoker.benchmarks.gpu.context import Context
from stoker.benchmarks.gpu.runner import *
context = Context.from_json({context.to_json()!r})
about = {{"device": context.device, "scale": context.scale_name}}
run_steps({steps!r}, ResultsFile(context.results_file, about), 10_000.0, context.work / "steps")
"""
    status = subprocess.run([sys.executable, "-c", program], check=False).returncode
    return status, json.loads(context.results_file.read_text())["steps"]


@pytest.mark.slow
def test_results_are_valid_when_the_runner_is_killed_in_each_step_and_later_runs_complete_them(
    tmp_path: Path,
) -> None:
    context = Context("cpu", "tiny", tmp_path, SOURCES, tmp_path / "results.json")
    steps = [replace(step, again=False) for step in planned_steps(context)]
    names = [step.name for step in steps]
    for number, step in enumerate(steps):
        status, found = run(context, [*steps[:number], lethal(step), *steps[number + 1 :]])
        assert status == -9, step.name
        assert list(found) == names[: number + 1]
        outcomes = [result["outcome"] for result in found.values()]
        assert outcomes[-1] == "begun", step.name
        assert set(outcomes[:-1]) <= {"done", "refused"}, found  # torchvision may be missing
    status, found = run(context, steps)
    assert status == 0
    assert list(found) == names
    assert all(result["outcome"] in ("done", "refused") for result in found.values()), found
    assert sum(result["outcome"] == "done" for result in found.values()) > len(names) / 2


def test_a_test_that_hangs_costs_itself_alone_and_says_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "gpu"
    folder.mkdir(parents=True)
    shutil.copy(SOURCES / "tests" / "gpu" / "run.py", folder)
    (folder / "test_a.py").write_text("""
import time
def waits_for_the_gpu(): time.sleep(600)
def test_hang(): waits_for_the_gpu()
def test_last(): pass
""")
    command = [sys.executable, folder / "run.py", folder / "report.json", "--limit", "30"]
    subprocess.run(command, check=False, capture_output=True)
    results = json.loads((folder / "report.json").read_text())["tests"]
    assert [result["outcome"] for result in results.values()] == ["hung", "passed"]
    assert "in waits_for_the_gpu" in next(iter(results.values()))["said"]
