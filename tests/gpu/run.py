"""Runs the tests beside this file so that none spoils another, and writes what became of each as JSON.

A test that crashes, hangs, or leaves CUDA in an error takes its process with it: behind every failure the
rest goes on in a new one. The results are written after each, so that a run that is cut off is not lost.

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
from pathlib import Path
from typing import Any

import pytest

from stoker.benchmarks.report.machine import allowed_cores, describe

_HERE = Path(__file__).resolve().parent
_TAIL = 4000  # characters of what a failure said
_POLL = 0.5  # seconds


class Recorder:
    """A pytest plugin that appends a line to a file as each test begins, and one as it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = 0.0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began = time.perf_counter()
        self._write(nodeid, "begun")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            said = "" if report.outcome == "passed" else str(report.longrepr)[-_TAIL:]
            self._write(report.nodeid, report.outcome, time.perf_counter() - self._began, said)

    def _write(self, test: str, outcome: str, seconds: float = 0.0, said: str = "") -> None:
        with self._path.open("a") as file:
            file.write(json.dumps([test, {"outcome": outcome, "seconds": round(seconds, 2), "said": said}]))
            file.write("\n")


class Collector:
    """A pytest plugin that keeps the names of all tests."""

    tests: tuple[str, ...] = ()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.tests = tuple(item.nodeid for item in session.items)


def collect(arguments: list[str]) -> tuple[str, ...]:
    """Names of the tests, in order."""
    collector = Collector()
    if pytest.main(["--collect-only", "-qq", *arguments, str(_HERE)], plugins=[collector]):
        sys.exit("the tests cannot be collected")
    return collector.tests


def run_until_a_failure(
    tests: list[str], arguments: list[str], limit: float, end: float
) -> dict[str, dict[str, Any]]:
    """What became of the tests that a process of its own came to; the last of them may have failed.

    Args:
        tests: Names of the tests.
        arguments: Further arguments of pytest.
        limit: Seconds that a test may take.
        end: When the process is killed, as ``time.monotonic`` counts.
    """
    descriptor, name = tempfile.mkstemp(suffix=".lines")
    os.close(descriptor)
    lines = Path(name)
    child = [sys.executable, "-X", "faulthandler", __file__, "--child", str(lines), "--", *arguments, *tests]
    try:
        with subprocess.Popen(child) as process:
            why = _wait(process, lines, limit, end)
        found = dict(json.loads(line) for line in lines.read_text().splitlines())
    finally:
        lines.unlink()
    for result in found.values():
        if result["outcome"] == "begun":
            result.update(outcome=why, said=f"exit status {process.returncode}")
    return found


def _wait(process: subprocess.Popen[bytes], lines: Path, limit: float, end: float) -> str:
    """Wait for the process, unless it writes nothing for ``limit`` seconds; what its last test then is."""
    while process.poll() is None:
        if time.time() - lines.stat().st_mtime > limit or time.monotonic() > end:
            process.kill()
            return "hung"
        time.sleep(_POLL)
    return "crashed"


def _crashes(results: dict[str, dict[str, Any]]) -> int:
    return sum(result["outcome"] in ("crashed", "hung") for result in results.values())


def _write(path: Path, document: dict[str, Any]) -> None:
    """Replace a file as a whole, so that it is valid whenever this process is killed."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(document, indent=1) + "\n")
    unfinished.replace(path)


def main() -> None:
    """Run the tests, or those that are left of them in a child."""
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
    options.json = options.json.resolve()
    os.chdir(_HERE.parents[1])  # names of tests begin there
    if options.child:
        sys.exit(pytest.main(["-x", "-q", *arguments], plugins=[Recorder(options.child)]))
    left = list(collect(arguments))
    results: dict[str, dict[str, Any]] = {}
    end = time.monotonic() + options.seconds
    while left and time.monotonic() < end and _crashes(results) < options.crashes:
        limit = min(options.limit, end - time.monotonic())
        found = run_until_a_failure(left, arguments, limit, end)
        # A process that came to no test did not start: the first one has that to answer for.
        results |= found or {left[0]: {"outcome": "crashed", "seconds": 0.0, "said": "before the test"}}
        left = [test for test in left if test not in results]
        document = {"machine": describe(allowed_cores()), "tests": results, "left": left}
        _write(options.json, document)
    outcomes = [result["outcome"] for result in results.values()]
    counts = [f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(outcomes)]
    print(", ".join([*counts, f"{len(left)} not run"]))
    sys.exit(any(outcome not in ("passed", "skipped") for outcome in outcomes))


if __name__ == "__main__":
    main()
