"""tests/gpu/run.py: a test that crashes or hangs costs itself alone, and each outcome is on disk at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parents[3] / "gpu" / "run.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tests beside the program."""
    folder = tmp_path / "tests" / "gpu"
    folder.mkdir(parents=True)
    shutil.copy(RUN, folder)
    return folder


def run(folder: Path, *options: str) -> dict[str, Any]:
    """The results, by the name of the test."""
    report = folder / "report.json"
    subprocess.run([sys.executable, folder / "run.py", report, *options], check=False, capture_output=True)
    document: dict[str, Any] = json.loads(report.read_text())
    document["tests"] = {name.rpartition("::")[2]: result for name, result in document["tests"].items()}
    return document


def test_a_crash_costs_its_test_alone(folder: Path) -> None:
    (folder / "test_a.py").write_text("""
import faulthandler
def test_first(): pass
def test_crash(): faulthandler._sigsegv()
def test_wrong(): raise ValueError("no decoder")
def test_last(): pass
""")
    found = run(folder)
    assert {name: result["outcome"] for name, result in found["tests"].items()} == {
        "test_first": "passed",
        "test_crash": "crashed",
        "test_wrong": "failed",
        "test_last": "passed",
    }
    assert found["left"] == []
    assert "Segmentation fault" in found["tests"]["test_crash"]["said"]
    assert "no decoder" in found["tests"]["test_wrong"]["said"]


def test_outcomes_are_on_disk_while_other_tests_run(folder: Path) -> None:
    """The second test waits for the outcome of the first; it hangs if that comes at the end."""
    (folder / "test_a.py").write_text(f"""
import json, pathlib, time
def test_first(): pass
def test_second():
    report = pathlib.Path({str(folder / "report.json")!r})
    while not report.exists() or "passed" not in str(json.loads(report.read_text())["tests"]):
        time.sleep(0.01)
""")
    found = run(folder, "--limit", "60")
    assert [result["outcome"] for result in found["tests"].values()] == ["passed", "passed"]


def test_the_run_ends_after_some_crashes(folder: Path) -> None:
    (folder / "test_a.py").write_text("""
import os
import pytest
@pytest.mark.parametrize("number", range(4))
def test_crash(number): os._exit(9)
""")
    found = run(folder, "--crashes", "2")
    assert list(found["tests"]) == ["test_crash[0]", "test_crash[1]"]
    assert len(found["left"]) == 2


def test_a_file_that_cannot_be_imported_costs_its_own_tests(folder: Path) -> None:
    (folder / "test_a.py").write_text("import no_such_module\ndef test_one(): pass\n")
    (folder / "test_b.py").write_text("def test_two(): pass\n")
    found = run(folder)["tests"]
    assert found["test_two"]["outcome"] == "passed"
    assert "no_such_module" in found["tests/gpu/test_a.py"]["said"]


def test_the_most_telling_files_run_first_and_those_that_may_crash_last(folder: Path) -> None:
    for name in ("test_bench_gpu", "test_dali_gpu", "test_gpus_gpu", "test_other", "test_ways_to_decode_gpu"):
        (folder / f"{name}.py").write_text(f"def {name}(): pass\n")
    assert list(run(folder)["tests"]) == [
        "test_gpus_gpu",
        "test_dali_gpu",
        "test_bench_gpu",
        "test_ways_to_decode_gpu",
        "test_other",
    ]
    real = {path.name for path in RUN.parent.glob("test_*.py")}
    assert all(name in RUN.read_text() for name in real), "the order names every file"
