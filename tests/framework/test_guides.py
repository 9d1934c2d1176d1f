"""The code of the tutorial and of the guides, run block after block in a folder with the examples."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.tree import blocks
from helpers.warm_python import WarmPython

ROOT = Path(__file__).parents[2]

# A file for each page: code that runs before the page, the line PAGE, and checks after it. Code between the
# lines EACH and PAGE runs after each block.
SURROUNDINGS = Path(__file__).parent / "pages"
EACH = "# [after each block]\n"
PAGE = "# [the page]\n"
FUTURE = "from __future__ import annotations\n"
SOURCES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guide").glob("*.md")]
PAGES = sorted(path.stem for path in SURROUNDINGS.glob("*.py"))

BEFORE = """
import fsspec
import shlex
import stoker
from stoker.augment import Normalize, Resize, load_recipe
from stoker.pipeline.commands.app import app

def command(line):
    words = shlex.split(line, comments=True)
    if words[0] in ("convert", "index"):    # a reader chooses one of these, and an empty folder
        target = words[words.index("--into") + 1 if "--into" in words else 2]
        fs, path = fsspec.url_to_fs(target)
        if "--into" not in words or words[1].rpartition("/")[0] != target:
            fs.rm(path, recursive=True) if fs.exists(path) else None
    app(words, standalone_mode=False)
"""


def code(page: str) -> list[str]:
    """The programs and commands on a page, in their order, commands as Python."""
    path = next(path for path in SOURCES if path.stem == page)
    text = path.read_text("utf-8")
    found = [block.code for block in blocks(text) if block.language in {"python", "shell"}]
    lines = [
        re.sub("^(make|pip|apt-get|pytest|zstdcat) .*$", "", block, flags=re.MULTILINE) for block in found
    ]
    return [
        re.sub("^stoker (.*)$", lambda line: f"command({line[1]!r})", block, flags=re.MULTILINE)
        for block in lines
    ]


def runnable(block: str, folder: Path) -> str:
    """The block with transforms for the dots; nothing if its framework is not installed."""
    compile(block, "page", "exec")
    if any(find_spec(name) is None for name in re.findall(r'output="(?!numpy)(\w+)"', block)):
        return ""
    block = block.replace("[...]", "[Resize((64, 64)), Normalize()]")
    return block.replace("/scratch/", f"{folder}/scratch/")


def program(page: str, folder: Path) -> str:
    """The code of a page, inside the page's file of ``pages``."""
    around, after = (SURROUNDINGS / f"{page}.py").read_text("utf-8").split(PAGE)
    before, _, each = around.partition(EACH)
    lines = [f"{runnable(block, folder)}\n{each}\n" for block in code(page)]
    text = "\n".join([BEFORE, before, *lines, after])
    return FUTURE + text.replace(FUTURE, "") if FUTURE in text else text  # of a page that shows whole modules


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, warm_torch: WarmPython, tmp_path: Path) -> None:
    found = code(page)
    assert found
    if any('"torch"' in block for block in found) and find_spec("torch") is None:
        pytest.skip("needs torch, which is not installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    file = tmp_path / "page.py"
    file.write_text(program(page, tmp_path), "utf-8")
    warm_torch.output(file, folder=tmp_path, paths=[ROOT / "tests"], strict=True)


def test_every_page_with_code_has_a_test() -> None:
    assert {path.stem for path in SOURCES if code(path.stem)} == set(PAGES)
