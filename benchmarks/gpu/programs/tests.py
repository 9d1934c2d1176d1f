"""The step that runs ``tests/gpu``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any

from ..context import SMOKE_LOADS, Context, has_passed
from ..runner import die_with_parent

_CRASHES = 3
_POLL = 1.0  # seconds
_SLOWEST = 5
_WAYS = "tests/gpu/test_ways_to_decode_gpu.py::test_every_way_to_decode_shows_the_same_pixels"


def tests(context: Context) -> None:
    """Run ``tests/gpu/run.py`` for at most the scale's seconds, and write which tests failed.

    On the CPU most of them run with the CPU in the place of the GPU; the others are skipped.
    """
    report = context.work / "tests.json"
    report.unlink(missing_ok=True)
    command = [sys.executable, str(context.tests / "run.py"), str(report), "--crashes", str(_CRASHES)]
    command += ["--seconds", str(context.scale.tests), "--limit", str(max(30, context.scale.tests / 3))]
    command += ["--", "-W", "default", *deselected(context.results())]
    environment = {**os.environ, "STOKER_TEST_DEVICE": context.device}
    with subprocess.Popen(
        command,
        cwd=context.root,
        env=environment,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes one system call
    ) as process:
        while process.poll() is None:
            sleep(_POLL)
            _write(context, report)
    _write(context, report)


def deselected(steps: dict[str, Any]) -> list[str]:
    """Arguments of pytest that leave out the ways to decode that have not passed the smoke test."""
    return [
        f"--deselect={_WAYS}[{'region' if region else 'full'}-{load:g}]"
        for region in (False, True)
        for load in SMOKE_LOADS
        if not has_passed(steps, region, load)
    ]


def _write(context: Context, report: Path) -> None:
    """Write a summary of the report of the tests so far, and the failures in full."""
    with suppress(FileNotFoundError):
        document = json.loads(report.read_text())
        results = document["tests"]
        counts = Counter(result["outcome"] for result in results.values())
        counts["not run"] = len(document["left"])
        good = ("passed", "skipped")
        failed = {name: result for name, result in results.items() if result["outcome"] not in good}
        seconds = {name: result["seconds"] for name, result in results.items()}
        slowest = sorted(seconds, key=seconds.__getitem__, reverse=True)[:_SLOWEST]
        verdict = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
        context.write(
            {"verdict": verdict, "failed": failed, "slowest": {name: seconds[name] for name in slowest}}
        )
