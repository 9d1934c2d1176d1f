"""Examples: each is short, runs as its first lines say, and reports how the loader did."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.processes.side_by_side import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator

Runs = dict[str, Future[subprocess.CompletedProcess[str] | None]]

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = {path.name: path.parent for path in EXAMPLES.glob("*/*.py") if path.parent.name != "clusters"}
FILES = sorted(FOLDERS)
HELPERS = {"shapes.py", "small_rcnn.py"}
"""What examples import: it runs with them."""
NAMES = [name for name in FILES if name not in HELPERS]
# timm imports torchvision, which has no build for a PyTorch without CUDA: a stand-in takes its place here.
STANDINS = Path(__file__).parent / "standins"


def missing(name: str) -> list[str]:
    """Returns the packages that an example imports and that are neither installed nor stood in for."""
    found: set[str] = set()
    for node in ast.parse((FOLDERS[name] / name).read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    found -= {path.name for path in STANDINS.iterdir()}
    found |= {package for name in HELPERS if name[:-3] in found for package in missing(name)}
    found -= {name[:-3] for name in HELPERS}
    return sorted(package for package in found if find_spec(package) is None)


@pytest.mark.parametrize("file", FILES)
def test_an_example_is_at_most_sixty_lines(file: str) -> None:
    assert len((FOLDERS[file] / file).read_text().splitlines()) <= 60


def run(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = [] if find_spec("timm") else [str(STANDINS)]
    path += [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    folder.mkdir()
    return subprocess.run(
        [sys.executable, FOLDERS[name] / name, folder / "shards", "1"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The runs of the examples of the chosen tests."""
    folder = tmp_path_factory.mktemp("examples")
    absent = {name for name in NAMES if missing(name)}  # here, because threads cannot parse at once
    with side_by_side(
        request, "name", lambda name: None if name in absent else run(name, folder / name)
    ) as found:
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name: str, runs: Runs) -> None:
    if missing(name):
        pytest.skip(f"needs {', '.join(missing(name))}, which is not installed")
    done = runs[name].result()
    assert done is not None
    assert done.returncode == 0, done.stderr
    assert "the loop waited" in done.stdout
