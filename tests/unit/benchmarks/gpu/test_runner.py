"""The runner of steps: whatever becomes of a step or of the runner, the results so far are valid JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.benchmarks.gpu.runner import ResultsFile, Step, run_steps
from stoker.benchmarks.gpu.steps import best_decoding, planned_steps

WRITES = "import os, json; open(os.environ['STEP_RESULT'], 'w').write(json.dumps({'n': %d}))\n"


def step(name: str, program: str, seconds: float = 600.0) -> Step:
    return Step(name, seconds, (sys.executable, "-c", program))


def run(folder: Path, *steps: Step, seconds: float = 10_000.0) -> dict[str, dict[str, Any]]:
    results = ResultsFile(folder / "results.json", {"machine": {"cores": 2}})
    run_steps(steps, results, seconds, report=lambda _: None)
    document = json.loads((folder / "results.json").read_text())
    assert document["machine"] == {"cores": 2}
    assert document["steps"] == results.steps
    return results.steps


def test_a_crash_costs_its_step_alone(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        step("first", WRITES % 1),
        step("segfault", WRITES % 2 + "import faulthandler; faulthandler._sigsegv()"),
        step("error", "raise ValueError('no decoder')"),
        step("refused", WRITES % 4 + "raise SystemExit(3)"),
        step("hangs", "import time; time.sleep(600)", seconds=1.0),
        step("last", WRITES % 6),
    )
    outcomes = {name: result["outcome"] for name, result in found.items()}
    assert outcomes == {
        "first": "done",
        "segfault": "crashed",
        "error": "failed",
        "refused": "refused",
        "hangs": "timed out",
        "last": "done",
    }
    assert [result.get("found", {}).get("n") for result in found.values()] == [1, 2, None, 4, None, 6]
    assert "Segmentation fault" in found["segfault"]["said"]
    assert "no decoder" in found["error"]["said"]


@pytest.mark.parametrize("killed", range(4))
def test_results_are_valid_when_the_runner_is_killed_in_any_step(tmp_path: Path, killed: int) -> None:
    """The step itself kills the runner, so that no clock decides when."""
    kills = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    steps = [step(str(number), WRITES % number) for number in range(4)]
    deadly = [*steps[:killed], step(str(killed), WRITES % killed + kills), *steps[killed + 1 :]]
    program = f"""
from pathlib import Path
from stoker.benchmarks.gpu.runner import *
results = ResultsFile(Path({str(tmp_path / "results.json")!r}), {{"machine": {{"cores": 2}}}})
run_steps({deadly!r}, results, 10_000.0)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.returncode == -9, done.stderr
    found = json.loads((tmp_path / "results.json").read_text())["steps"]
    outcomes = [result["outcome"] for result in found.values()]
    assert outcomes == ["done"] * killed + ["begun"]
    again = run(tmp_path, *steps)
    assert [result["found"]["n"] for result in again.values()] == [0, 1, 2, 3]


def test_steps_behind_the_end_are_noted(tmp_path: Path) -> None:
    found = run(tmp_path, step("first", WRITES % 1), step("last", WRITES % 2), seconds=0.5)
    assert [result["outcome"] for result in found.values()] == ["no time", "no time"]


def test_what_has_succeeded_is_not_run_again(tmp_path: Path) -> None:
    run(tmp_path, step("first", WRITES % 1), step("last", "raise SystemExit(3)"))
    found = run(tmp_path, step("first", WRITES % 7), step("last", WRITES % 8))
    assert [result["found"]["n"] for result in found.values()] == [1, 8]


SMOKE = {"smoke full 0": True, "smoke full 0.65": True, "smoke region 1": False}


def smoked(**decoded: list[dict[str, Any]]) -> dict[str, Any]:
    steps: dict[str, Any] = {name: {"found": {"passed": passed}} for name, passed in SMOKE.items()}
    return steps | {name: {"found": {"decode": rows}} for name, rows in decoded.items()}


def row(region: bool, load: float, rate: float) -> dict[str, Any]:
    return {"region": region, "load": load, "threads": 8, "images_per_second": rate}


def test_later_steps_decode_as_the_smoke_test_allows() -> None:
    assert best_decoding({}) is None
    assert best_decoding({"smoke full 0": {"outcome": "crashed"}}) is None
    assert best_decoding(smoked()) == {"region": False, "load": 0.0}
    best = row(False, 0.8, 9000.0)
    # Regions are faster and were wrong.
    rows = smoked(a=[row(False, 0.0, 7000.0), best], b=[row(True, 1.0, 12000.0)])
    assert best_decoding(rows) == best


def test_the_most_telling_steps_come_first(tmp_path: Path) -> None:
    steps = planned_steps("cuda:0", "full", tmp_path)
    names = [one.name for one in steps]
    assert names[:3] == ["machine", "data", "smoke full 0"]
    kinds = list(dict.fromkeys(name.split()[0] for name in names))
    assert kinds == [
        "machine",
        "data",
        "smoke",
        "decode",
        "tests",
        "round",
        "overlap",
        "long",
        "corrupt",
        "switch",
        "fork",
    ]
    assert len(set(names)) == len(names)
    assert names.index("round 1 imagenet torchvision") < names.index("round 2 imagenet stoker-dali")
