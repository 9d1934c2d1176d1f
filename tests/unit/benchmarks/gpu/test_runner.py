"""The runner of steps: whatever becomes of a step or of the runner, the results so far are valid JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.benchmarks.gpu import runner
from stoker.benchmarks.gpu.runner import ResultsFile, Step, ends, run_steps, stop
from stoker.errors import ConfigError

WRITES = "import os, json; open(os.environ['STEP_RESULT'], 'w').write(json.dumps({'n': %d}))\n"
ABOUT = {"machine": {"cores": 2, "gpu": "NVIDIA H200"}, "device": "cuda:0", "scale": "full"}


def step(name: str, program: str, seconds: float = 600.0, *, again: bool = False) -> Step:
    return Step(name, seconds, (sys.executable, "-c", program), again=again)


def run(folder: Path, *steps: Step, seconds: float = 10_000.0) -> dict[str, dict[str, Any]]:
    results = ResultsFile(folder / "results.json", ABOUT)
    run_steps(steps, results, seconds, folder / "steps", report=lambda _: None)
    document = json.loads((folder / "results.json").read_text())
    assert {name: document[name] for name in ABOUT} == ABOUT
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


def test_a_step_that_is_stopped_says_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_FOR_STACKS", 120.0)  # a busy machine may take longer than a lease allows
    program = """
import time
def waits_for_the_gpu():
    print(flush=True)
    time.sleep(600)
waits_for_the_gpu()
"""
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        stop(process)
        assert b"in waits_for_the_gpu" in process.stderr.read()
    assert process.returncode == -signal.SIGABRT


def test_a_step_that_ignores_signals_is_killed(tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(signal.SIGABRT, signal.SIG_IGN); time.sleep(600)"
    assert run(tmp_path, step("hangs", program, seconds=1.0))["hangs"]["outcome"] == "timed out"


def test_the_log_of_each_step_has_its_beginning_and_its_end(tmp_path: Path) -> None:
    program = "print('first'); print('x' * 1_000_000); print('last')"
    found = run(tmp_path, step("long", program + "; raise SystemExit(1)"), step("short", "print('hello')"))
    logs = {path.name.split(".")[0]: path.read_text() for path in (tmp_path / "steps").glob("*.log")}
    assert logs["short"] == "hello\n"
    for text in (logs["long"], found["long"]["said"]):
        assert text.startswith("first\n")
        assert "characters are left out" in text
        assert text.endswith("last\n")
    assert len(logs["long"]) < 300_000
    assert ends("abcdef", 3, 3) == "abcdef"


@pytest.mark.parametrize("killed", range(4))
def test_results_are_valid_when_the_runner_is_killed_in_any_step(tmp_path: Path, killed: int) -> None:
    """The step itself kills the runner, so that no clock decides when."""
    kills = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    steps = [step(str(number), WRITES % number) for number in range(4)]
    deadly = [*steps[:killed], step(str(killed), WRITES % killed + kills), *steps[killed + 1 :]]
    assert run_in_a_process(tmp_path, deadly).returncode == -9
    found = json.loads((tmp_path / "results.json").read_text())["steps"]
    outcomes = [result["outcome"] for result in found.values()]
    assert outcomes == ["done"] * killed + ["begun"]
    again = run(tmp_path, *steps)
    assert [result["found"]["n"] for result in again.values()] == [0, 1, 2, 3]


def run_in_a_process(folder: Path, steps: list[Step]) -> subprocess.CompletedProcess[bytes]:
    program = f"""
from pathlib import Path
from stoker.benchmarks.gpu.runner import *
folder = Path({str(folder)!r})
run_steps({steps!r}, ResultsFile(folder / "results.json", {ABOUT!r}), 10_000.0, folder / "steps")
"""
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)


def test_a_step_ends_with_its_runner(tmp_path: Path) -> None:
    """A pipe ends when the last process that writes to it does."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = f"""
import os, signal, time
pipe = open({str(pipe)!r}, "w")
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(20)
pipe.write("the step lived on")
"""
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # the step can open its end
    os.set_blocking(reader, True)
    run_in_a_process(tmp_path, [step("orphan", program)])
    with os.fdopen(reader) as stream:
        assert not stream.read()


def test_an_orphan_does_not_write_to_the_result_of_a_later_run(tmp_path: Path) -> None:
    steps = [step("one", "import os; print(os.environ['STEP_RESULT'])")]
    names = set()
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        run_in_a_process(folder, steps)
        (log,) = (folder / "steps").glob("one.*.log")
        names.add(Path(log.read_text().strip()).name)
    assert len(names) == 2


def test_steps_behind_the_end_are_noted(tmp_path: Path) -> None:
    found = run(tmp_path, step("first", WRITES % 1), step("last", WRITES % 2), seconds=0.5)
    assert [result["outcome"] for result in found.values()] == ["no time", "no time"]


def test_what_has_succeeded_is_not_run_again(tmp_path: Path) -> None:
    run(tmp_path, step("first", WRITES % 1), step("last", "raise SystemExit(3)"))
    found = run(tmp_path, step("first", WRITES % 7), step("last", WRITES % 8))
    assert [result["found"]["n"] for result in found.values()] == [1, 8]


def test_datasets_are_looked_for_again(tmp_path: Path) -> None:
    """A later run may be on a machine that does not have them."""
    run(tmp_path, step("data", WRITES % 1, again=True))
    assert run(tmp_path, step("data", WRITES % 2, again=True))["data"]["found"] == {"n": 2}
    unchanged = run(tmp_path, step("data", WRITES % 3, again=True), seconds=0.5)
    assert unchanged["data"]["found"] == {"n": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "cpu"}, "results of device 'cuda:0', and this run has 'cpu'"),
        ({"scale": "tiny"}, "results of scale 'full', and this run has 'tiny'"),
        ({"machine": {"gpu": "NVIDIA L4"}}, "results of GPU 'NVIDIA H200', and this run has 'NVIDIA L4'"),
    ],
)
def test_results_of_another_machine_are_not_mixed_with_these(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    run(tmp_path, step("first", WRITES % 1))
    before = (tmp_path / "results.json").read_text()
    with pytest.raises(ConfigError, match=message):
        ResultsFile(tmp_path / "results.json", {**ABOUT, **change})
    assert (tmp_path / "results.json").read_text() == before


def test_results_are_in_two_files_of_which_one_may_get_lost(tmp_path: Path) -> None:
    given, copy = tmp_path / "out" / "results.json", tmp_path / "results.json"
    given.parent.mkdir()
    ResultsFile(given, ABOUT, copy, {"minutes": 9}).add("first", {"outcome": "done"})
    assert given.read_text() == copy.read_text()
    given.unlink()
    again = ResultsFile(given, ABOUT, copy, {"minutes": 4})
    assert again.is_final("first")
    again.add("last", {"outcome": "done"})
    assert json.loads(given.read_text())["runs"] == [{"minutes": 9}, {"minutes": 4}]
