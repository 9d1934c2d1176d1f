"""The workflows of a hosted runner, which run targets and scripts of the tree."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = (ROOT / "pyproject.toml").read_text()
WHEELS = PROJECT[PROJECT.index("[tool.cibuildwheel]") : PROJECT.index("[tool.pytest")]


def commands(workflow: Path) -> str:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return "\n".join(step["run"] for job in jobs for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: str(path.name))
def test_the_targets_and_scripts_of_a_workflow_exist(workflow: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    found = commands(workflow)
    assert set(re.findall(r"\bmake (\w+)", found)) <= set(targets)
    for script in re.findall(r"\btools/[\w./-]+", found):
        assert os.access(ROOT / script, os.X_OK), script


def test_the_paths_of_the_build_of_wheels_exist() -> None:
    paths = re.findall(r"(?<!/)\btools/[\w./-]+", WHEELS) + re.findall(r"\{project\}/([\w./-]+)", WHEELS)
    assert {"tools/wheels/libraries.sh", "tools/wheels/check.py", "tests/unit/native"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).exists()] == []
