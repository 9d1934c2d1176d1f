"""The program of a step: a reason instead of an error where the machine lacks something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from stoker.benchmarks.gpu.context import Context
from stoker.benchmarks.gpu.runner import write_json


def refused(context: Context, program: str, *step: str) -> str:
    """The reason of a step that is run after some lines of Python."""
    result = context.work / "found.json"
    lines = f"{program}\nfrom stoker.benchmarks.gpu.step import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", lines, context.to_json(), *step],
        env={**os.environ, "STEP_RESULT": str(result)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    reason: str = json.loads(result.read_text())["reason"]
    return reason


def test_a_step_without_its_package_or_its_datasets_is_refused(tmp_path: Path) -> None:
    context = Context("cpu", "tiny", tmp_path, tmp_path, tmp_path / "results.json")
    write_json(context.results_file, {"steps": {}})
    hidden = "import sys; sys.modules['torch'] = None"
    assert "torch" in refused(context, hidden, "loader", "imagenet", "stoker-native")
    assert refused(context, "", "smoke", "0", "1") == "the datasets were not made"
    assert refused(context, "", "decode", "0", "1") == "this way to decode has not passed the smoke test"
