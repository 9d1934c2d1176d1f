"""Hints at a missing package name packages that pip finds, and not extras of Stoker, which no index has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from helpers.tree.import_graph import modules

ROOT = Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text()
EXTRAS = PROJECT[PROJECT.index("[project.optional-dependencies]") : PROJECT.index("[dependency-groups]")]
PACKAGES = {re.split(r"[>=<]", item)[0] for item in re.findall(r'"([^"]+)"', EXTRAS)} | {"numpy", "mxnet"}


def named_packages(path: Path) -> list[str]:
    """The packages that calls of install_hint in a module name."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    hints = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "install_hint"]
    return [one.value for call in hints for one in call.args if isinstance(one, ast.Constant)]


def test_every_named_package_is_one_of_an_extra() -> None:
    named = {name for path in modules().values() for name in named_packages(Path(path))}
    assert {"tokenizers", "ray", "fsspec", "matplotlib", "nvidia-dali-cuda120"} <= named <= PACKAGES


@pytest.mark.parametrize(
    "folder", ["src/stoker", "formats", "augment", "bucketing", "pipeline", "benchmarks"]
)
def test_one_function_makes_the_hints(folder: str) -> None:
    written = [path for path in (ROOT / folder).rglob("*.py") if "stoker[" in path.read_text()]
    assert written == []


def test_the_packages_of_frameworks_are_those_of_the_extras() -> None:
    from stoker.pipeline.adapters import FRAMEWORKS

    assert {row.package or row.name for row in FRAMEWORKS.values()} <= PACKAGES
