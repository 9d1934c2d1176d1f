"""Runs the tests beside this file so that none spoils another, and writes the outcome of each as JSON.

A test that crashes, hangs, or leaves CUDA in an error takes its process with it: after every failure the
other tests go on in a new one. The file of results is replaced as tests end, so that a run that is cut off is
not lost.

    python tests/gpu/run.py gpu.json [--limit 120] [--seconds 150] [--crashes 3] [-- -k filters -W default]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker.benchmarks.gpu.runner import die_with_parent, ends, stop, write_json
from stoker.benchmarks.measuring import allowed_cores, describe

_HERE = Path(__file__).resolve().parent
_ORDER = (
    "test_gpus_gpu.py",
    "test_dali_gpu.py",
    "test_copies_gpu.py",
    "test_forms_gpu.py",
    "test_bench_gpu.py",
    "test_ways_to_decode_gpu.py",
)
"""The most telling files first; what takes long, and what may crash, last."""
_TAIL = 4000  # characters of what a failure said
_POLL = 0.5  # seconds

Outcomes = dict[str, dict[str, Any]]


class Recorder:
    """A pytest plugin that appends lines to a file: the names of all tests, and each as it begins and ends.

    It ends the process after a failure.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = 0.0
        self._session: pytest.Session | None = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note(report.nodeid, "failed", str(report.longrepr))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._session = session
        self._write([item.nodeid for item in session.items])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began = time.perf_counter()
        self._note(nodeid, "begun", "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._note(report.nodeid, report.outcome, "" if report.passed else str(report.longrepr))
        if report.failed and self._session:
            self._session.shouldstop = "the other tests go on in another process"

    def _note(self, test: str, outcome: str, said: str) -> None:
        seconds = round(time.perf_counter() - self._began, 2) if self._began else 0.0
        self._write([test, {"outcome": outcome, "seconds": seconds, "said": said[-_TAIL:]}])

    def _write(self, line: list[Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


@dataclass
class Run:
    """A run of all tests, in as many processes as it takes.

    Attributes:
        report: File of the results.
        arguments: Further arguments of pytest.
        limit: Seconds that a test may take.
        end: When the run ends, as ``time.monotonic`` counts.
        results: Outcomes so far, by test.
        left: Tests without an outcome; None before they are known.
    """

    report: Path
    arguments: list[str]
    limit: float
    end: float
    results: Outcomes = field(default_factory=dict)
    left: list[str] | None = None

    @property
    def crashes(self) -> int:
        """Tests that ended their process, or were ended with it."""
        return sum(result["outcome"] in ("crashed", "hung") for result in self.results.values())

    def until_a_failure(self) -> None:
        """Run tests in a process of its own until one fails or all have run."""
        with tempfile.TemporaryDirectory() as folder:
            lines, log = Path(folder, "lines"), Path(folder, "log")
            lines.touch()
            tests = files() if self.left is None else self.left
            command = [sys.executable, "-X", "faulthandler", __file__, "--child", str(lines)]
            with log.open("wb") as said:
                process = subprocess.Popen(
                    [*command, "--", *self.arguments, *tests],
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes one system call
                )
                try:
                    why = self._wait(process, lines)
                finally:
                    if process.returncode is None:
                        stop(process)
            self._take(lines)
            said_at_last = ends(log.read_text(errors="replace"), _TAIL // 4, _TAIL)
        for result in self.results.values():
            if result["outcome"] == "begun":
                result.update(outcome=why, said=f"exit status {process.returncode}\n{said_at_last}")
        if self.left is None:
            self.results["collection"] = {"outcome": why, "seconds": 0.0, "said": said_at_last}
            self.left = []
        self.left = [test for test in self.left if test not in self.results]
        self.write()

    def _wait(self, process: subprocess.Popen[bytes], lines: Path) -> str:
        """Wait for the process, until the limit of a test or the end; the outcome of an unfinished test.

        Imports before the first test have no limit but the end.
        """
        while True:
            try:
                process.wait(_POLL)
                return "crashed"
            except subprocess.TimeoutExpired:
                self._take(lines)
                self.write()
            has_begun = any(result["outcome"] == "begun" for result in self.results.values())
            if has_begun and time.time() - lines.stat().st_mtime > self.limit:
                return "hung"
            if time.monotonic() > self.end:
                return "cut off"

    def _take(self, lines: Path) -> None:
        """Take over what the process has written; its last line may be unfinished."""
        for line in lines.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                break
            found = json.loads(line)
            if len(found) == 2 and isinstance(found[1], dict):
                self.results[found[0]] = found[1]
            elif self.left is None:
                self.left = found

    def write(self) -> None:
        """Replace the file of results."""
        left = [test for test in self.left or [] if test not in self.results]
        write_json(self.report, {"machine": describe(allowed_cores()), "tests": self.results, "left": left})


def files() -> list[str]:
    """The files of tests in the order of :data:`_ORDER`, others after them."""
    names = sorted(path.name for path in _HERE.glob("test_*.py"))
    known = [name for name in _ORDER if name in names]
    return [str(_HERE / name) for name in [*known, *(name for name in names if name not in known)]]


def main() -> None:
    """Run the tests; in a child, those that are left."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("json", type=Path, nargs="?", default=Path("gpu.json"))
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a test may take")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="seconds for all tests")
    parser.add_argument("--crashes", type=int, default=10**9, help="crashes or hangs, after which it ends")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, arguments = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    report = options.json.resolve()
    os.chdir(_HERE.parents[1])  # names of tests begin there
    if options.child:
        arguments = ["-q", "--continue-on-collection-errors", *arguments]
        sys.exit(pytest.main(arguments, plugins=[Recorder(options.child)]))
    run = Run(report, arguments, options.limit, time.monotonic() + options.seconds)
    while run.left is None or (run.left and time.monotonic() < run.end and run.crashes < options.crashes):
        before = len(run.results)
        run.until_a_failure()
        if len(run.results) == before and run.left:
            # A process that came to no test did not start: the first one has that to answer for.
            run.results[run.left.pop(0)] = {"outcome": "crashed", "seconds": 0.0, "said": "before the test"}
            run.write()
    outcomes = [result["outcome"] for result in run.results.values()]
    counts = [f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(outcomes)]
    print(", ".join([*counts, f"{len(run.left)} not run"]))
    sys.exit(any(outcome not in ("passed", "skipped") for outcome in outcomes))


if __name__ == "__main__":
    main()
