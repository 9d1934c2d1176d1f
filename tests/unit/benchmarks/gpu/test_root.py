"""Measurements by an installed package: photographs and tests lie in a folder of sources, not beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stoker
from stoker import _native
from stoker.benchmarks.gpu.context import find_root
from stoker.errors import SourceError

SOURCES = Path(__file__).parents[4]
WITHOUT_THE_TREE = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
"""
"""Hides an editable installation, so that the copied package is found."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a copy of the package alone, as pip installs it."""
    site = tmp_path / "site"
    ignored = shutil.ignore_patterns("results", "__pycache__", "*.md")
    shutil.copytree(Path(stoker.__file__).parent, site / "stoker", ignore=ignored)
    module = Path(_native.__file__)
    shutil.copy(module, site / "stoker" / module.name)
    (site / "sitecustomize.py").write_text(WITHOUT_THE_TREE)
    return site


def run(installed: Path, folder: Path, *arguments: str) -> str:
    """What a module of the package prints."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def test_an_installed_package_finds_photographs_in_the_folder_of_the_sources(
    installed: Path, tmp_path: Path
) -> None:
    where = run(installed, tmp_path, "-c", "import stoker; print(stoker.__file__)")
    assert Path(where.strip()).is_relative_to(installed)
    options = ["--device", "cpu", "--scale", "tiny", "--steps", "data"]
    for name, folder, root in (("named", tmp_path, ["--root", str(SOURCES)]), ("current", SOURCES, [])):
        work = tmp_path / name
        run(installed, folder, "-m", "stoker.benchmarks.gpu", "--work", str(work), *options, *root)
        result = json.loads((work / "results.json").read_text())["steps"]["data"]
        assert result["outcome"] == "done", result
        assert (work / result["found"]["imagenet"]).is_dir()


def test_other_benchmarks_take_photographs_from_the_current_folder(installed: Path) -> None:
    program = "from stoker.benchmarks.measuring import PHOTOGRAPHS as p; print(p.is_dir(), p)"
    assert run(installed, SOURCES, "-c", program).split() == ["True", "examples/photos/train"]


def test_a_folder_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="Name the folder of Stoker's sources with --root"):
        find_root(tmp_path)
    assert find_root(SOURCES) == SOURCES.resolve()
