"""The code of the tutorial and of the guides, run block after block in a folder with the examples."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.processes.side_by_side import side_by_side
from helpers.tree.markdown import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

# What surrounds a page's blocks: what they leave to the reader before, what they should have led to behind.
BEFORE = """
import shlex
import stoker
from stoker.augment import Resize, load_recipe
from stoker.pipeline.commands.app import app

def command(line):
    app(shlex.split(line), standalone_mode=False)
"""
AUGMENTATION = """
import warnings
warnings.filterwarnings("ignore", "the slow engine 'reference' runs all transforms")
command("convert examples/photos/val shards/photos")
command("convert examples/photos/val shards/train")

def batch(transforms):
    with stoker.ImageLoader("shards/photos", batch_size=4, transforms=transforms) as loader:
        return next(iter(loader)).image
"""
AUGMENTATION_AFTER = """
assert (first != second).any(axis=(1, 2, 3)).all()
assert "imagenet-train" in recipe_names()
assert load_recipe("recipe.json") == load_recipe("imagenet-train")
assert batch([RandomResizedCrop(64), blur, three]).shape == (4, 3, 64, 64)
assert batch([Resize((64, 64)), RandomVignette(1)]).mean() < batch([Resize((64, 64))]).mean() - 5
"""
DETECTION = """
from pathlib import Path
from stoker.augment import save_recipe
save_recipe(load_recipe("coco-ssd"), "recipe.json")
seen = []

def model(images, targets):
    assert [len(target["boxes"]) for target in targets] == [len(target["labels"]) for target in targets]
    seen.append(len(images))
"""
DETECTION_AFTER = """
assert sum(seen) in (2, 3)
assert all(Path(name).stat().st_size > 1000 for name in ("sheet.png", "sheet.html"))
assert np.abs(np.concatenate(back) - stoker.open("shards/objects").annotations([2]).boxes).max() < 0.01
assert keep.any() and len(masks) == len(points) == len(boxes)
"""
TEXT = """
import json
from pathlib import Path
import pyarrow
from pyarrow import parquet

for name, count in (("questions", 60), ("more", 20)):
    topics = [("age", "area", "sum")[i % 3] for i in range(count)]
    lines = [
        {"question": f"how many {i}", "answer": "word " * (1 + i * 7 % 30), "topic": topic}
        for i, topic in enumerate(topics)
    ]
    Path(f"{name}.jsonl").write_text("\\n".join(map(json.dumps, lines)))
for name in ("part-1.txt", "part-2.txt", "train.en", "train.de"):
    Path(name).write_text("to be or not to be\\n" * 9)
Path("data").mkdir()
parquet.write_table(pyarrow.table({"text": ["to be", "or not to be"]}), "data/train-0.parquet")
"""
TEXT_AFTER = """
assert loader.dataset is mixture
assert areas.classes == ("age", "area", "sum")
assert len(areas) == 20
assert set(next(iter(loader)).dataset.tolist()) <= {0, 1}
assert max(segments.max() for _, segments, _ in packed) <= 32
"""
PORTING = """
import tarfile
from pathlib import Path
import torch

command("convert examples/photos/train shards/train")
command("convert examples/photos/val shards/val")
Path("corpus.txt").write_text("to be or not to be\\n" * 500)
for number, photo in enumerate(sorted(Path("examples/photos/val").rglob("*.jpg"))[:4]):
    with tarfile.open(f"train-{number:03}.tar", "w") as archive:
        archive.add(photo, f"{number}.jpg")
        Path("label").write_text(str(number % 2))
        archive.add("label", f"{number}.cls")

def model(images):
    return torch.zeros(len(images), 12)
"""
PORTING_AFTER = """
assert int(seen) == 48 and int(right) == 4
assert stoker.open("shards/archives").labels.tolist() == [0, 1, 0, 1]
assert x.shape == y.shape == (12, 256) and bool((y[:, :-1][y[:, :-1] >= 0] == x[:, 1:][y[:, :-1] >= 0]).all())
assert len(train) == 1
"""
TUTORIAL = """
def range(epochs):
    return [0]    # one epoch shows that the training runs
"""
TUTORIAL_AFTER = """
assert images.shape == (16, 3, 64, 64) and 0 <= right <= 48
"""
WRITING_AFTER = """
assert depths.shape == (16, 64, 64) and captions[3] == "picture 3" and depth.shape == (64, 64)
for name, number in (("pairs", 20), ("rows", 1), ("made", 9), ("texts", 10), ("more", 10)):
    assert len(stoker.open(f"shards/{name}")) == number
assert stoker.open("shards/objects").annotations([0]).boxes.tolist() == [[4, 8, 24, 38], [0, 0, 10, 10]]
assert stoker.open("shards/texts").column("score").tolist() == [number / 10 for number in range(10)]
"""
LOADING = """
from pathlib import Path

def range(epochs):
    return [0]    # one epoch shows that the loader runs

names = ["cat", "dog", *"abcdefghij"]
for name in ("train", "val", "a", "b"):
    with stoker.Writer(f"shards/{name}", classes=names) as writer:
        for number, photo in enumerate(sorted(Path("examples/photos/val").rglob("*.jpg"))):
            writer.write(photo, label=number % 12, key=f"n{number:02}", score=1 + number)
command("convert examples/objects.json shards/coco --images examples/photos/train")
"""
LOADING_AFTER = """
assert sorted(names) == sorted(["cat", "dog", *"abcdefghij"] * 4)
assert len(targets) == 3 and targets[0]["masks"].shape[1:] == (320, 320)
assert len(mixture) == 96 and state["epoch"] == 0
"""
VIEWS = """
command("convert examples/photos/val shards/train")
"""
VIEWS_AFTER = """
assert first.shape == second.shape == (48, 3, 224, 224) and crops.shape == (8, 48, 3, 96, 96)
assert weak.shape == strong.shape == (48, 3, 224, 224) and labels.shape == (48,)
assert images.shape[:2] == masks.shape[:2] == (2, 48) and hidden.count is None
"""
PAGES = {
    "tutorial": (TUTORIAL, "", TUTORIAL_AFTER),
    "README": ("", "", "assert len(loader.dataset) == 108"),
    "loading": (LOADING, "", LOADING_AFTER),
    "writing": ("", "", WRITING_AFTER),
    "porting": (PORTING, "", PORTING_AFTER),
    "views": (VIEWS, "", VIEWS_AFTER),
    "augmentation": (AUGMENTATION, "print(batch(transforms).shape)", AUGMENTATION_AFTER),
    "text": (TEXT, "", TEXT_AFTER),
    "detection": (DETECTION, "", DETECTION_AFTER),
}


def code(page: str) -> list[str]:
    """The programs and commands on a page, in their order, commands as Python."""
    path = next((ROOT / "docs").rglob(f"{page}.md"), ROOT / f"{page}.md")
    text = path.read_text("utf-8")
    found = [block.code for block in blocks(text) if block.language in {"python", "shell"}]
    lines = [re.sub("^(make|pip|zstdcat) .*$", "", block, flags=re.MULTILINE) for block in found]
    return [
        re.sub("^stoker (.*)$", lambda line: f"command({line[1]!r})", block, flags=re.MULTILINE)
        for block in lines
    ]


def run(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a page in a process of its own: a page registers transforms."""
    before, each, after = PAGES[page]
    folder.mkdir()
    program = folder / "page.py"
    lines = [BEFORE, before, *(f"{block}\n{each}\n" for block in code(page)), after]
    program.write_text("\n".join(lines), "utf-8")
    (folder / "examples").symlink_to(ROOT / "examples")
    command = [sys.executable, "-W", "error", str(program)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("pages")
    with side_by_side(request, "page", lambda page: run(page, folder / page)) as found:
        yield found


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, runs: Any) -> None:
    found = code(page)
    assert len(found) >= 3
    if any('"torch"' in block for block in found) and find_spec("torch") is None:
        pytest.skip("needs torch, which is not installed")
    done = runs[page].result()
    assert done.returncode == 0, done.stderr
