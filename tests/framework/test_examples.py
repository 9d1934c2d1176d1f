"""Examples: each is short, runs as its first lines say, and reports how the loader did."""

from __future__ import annotations

import ast
import gzip
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.warm_python import WarmPython

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = {path.name: path.parent for path in EXAMPLES.glob("*/*.py") if path.parent.name != "clusters"}
"""The folder of each example that runs here; test_clusters.py runs those of clusters."""
HELPERS = {"shapes.py", "small_rcnn.py"}
"""Modules that examples import, and that run with them."""
NAMES = [name for name in sorted(FOLDERS) if name not in HELPERS]
# timm imports torchvision, which has no build for a PyTorch without CUDA: a stand-in replaces timm here.
STANDINS = Path(__file__).parent / "standins"


def missing(name: str) -> list[str]:
    """Returns the packages that an example imports, and that are not installed and have no stand-in."""
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


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/*.py")), ids=lambda file: str(file.name))
def test_an_example_is_at_most_sixty_lines(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 60


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the examples with a third of its photographs and a tenth of its texts."""
    folder = tmp_path_factory.mktemp("examples")
    for file, source in FOLDERS.items():
        (folder / source.name).mkdir(exist_ok=True)
        shutil.copy(source / file, folder / source.name)
    shutil.copy(EXAMPLES / "objects.json", folder)
    with_objects = (EXAMPLES / "objects.json").read_text()
    for photos in (EXAMPLES / "photos").glob("*/*"):
        (folder / photos.relative_to(EXAMPLES)).mkdir(parents=True)
        for number, photo in enumerate(sorted(photos.iterdir())):
            if number % 3 == 0 or photo.name in with_objects:
                shutil.copy(photo, folder / photo.relative_to(EXAMPLES))
    with gzip.open(EXAMPLES / "text" / "gsm8k-1000.jsonl.gz", "rt", encoding="utf-8") as text:
        tenth = list(text)[::10]
    with gzip.open(folder / "text" / "gsm8k-1000.jsonl.gz", "wt", encoding="utf-8") as text:
        text.writelines(tenth)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name: str, examples: Path, warm_torch: WarmPython, tmp_path: Path) -> None:
    if missing(name):
        pytest.skip(f"needs {', '.join(missing(name))}, which is not installed")
    paths = [] if find_spec("timm") else [STANDINS]
    printed = warm_torch.output(
        examples / FOLDERS[name].name / name, tmp_path / "shards", 1, folder=tmp_path, paths=paths
    )
    verdicts = ("the loop waited", "does not show what limits the training")  # the latter after one batch
    assert any(verdict in printed for verdict in verdicts)
