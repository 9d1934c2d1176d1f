"""The tables of docs/architecture.md, and the paths that this page and docs/common-changes.md name."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


@cache
def page() -> str:
    """Returns the text of both pages."""
    return "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("architecture", "common-changes"))


def parts(folder: str) -> list[list[str]]:
    """Returns the parts of a folder, as full names of modules, for each row of its table."""
    (table,) = re.findall(rf"### {folder}\n\n((?:\|.*\n)+)", page())
    rows = [re.findall(r"`([\w./]+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    names = [[path.rstrip("/").removesuffix(".py").replace("/", ".") for path in row] for row in rows]
    return [[f"stoker.{name}" for name in row] for row in names]


def paths() -> list[str]:
    """Returns the paths that the pages name, in backquotes and in links."""
    links = re.findall(r"\]\(([\w./-]+)\)", page())
    return re.findall(r"`([\w.-]+/[\w./-]*)`", page()) + [f"docs/{link}" for link in links]


FOLDERS = ("formats", "augment", "bucketing", "pipeline")
FRAMEWORKS = (
    "torch",
    "tensorflow",
    "jax",
    "nvidia",
    "ml_dtypes",
    "lightning",
    "keras",
    "mxnet",
    "cupy",
    "accelerate",
)
HOMES = {
    "torch": "pipeline/adapters/torch/",
    "tensorflow": "pipeline/adapters/tensorflow.py",
    "jax": "pipeline/adapters/jax.py",
    "keras": "pipeline/adapters/keras.py",
    "mxnet": "pipeline/adapters/mxnet.py",
    "cupy": "pipeline/adapters/cupy.py",
    "accelerate": "pipeline/adapters/accelerate.py",
    "nvidia": "pipeline/engines/dali/",
    "ml_dtypes": "pipeline/adapters/numpy.py",
}
"""The only file, or the only folder, that may import a framework."""


@cache
def modules() -> dict[str, Path]:
    """Returns the files of the four folders, relative to the root, by the full name of the module."""
    files = [file.relative_to(ROOT) for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    return {
        ".".join(("stoker", *file.with_suffix("").parts)).removesuffix(".__init__"): file for file in files
    }


@cache
def parse(path: Path) -> ast.Module:
    """Returns the syntax tree of a file."""
    return ast.parse((ROOT / path).read_text())


@cache
def from_imports(path: Path) -> list[tuple[int, str, list[str]]]:
    """Returns the level, the full name of the module and the names of each ``from ... import``."""
    package = ("stoker", *path.parent.parts)
    found = []
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            found.append((node.level, module, [alias.name for alias in node.names]))
    return found


@cache
def imported(path: Path) -> set[str]:
    """Returns the full names that a file imports, inside functions and for type checking, too."""
    nodes = [node for node in ast.walk(parse(path)) if isinstance(node, ast.Import)]
    names = {alias.name for node in nodes for alias in node.names}
    return names | {f"{module}.{name}" for _, module, names in from_imports(path) for name in names}


def imports(path: Path, module: str) -> bool:
    """Returns whether a file imports a module or something in it."""
    return any(name == module or name.startswith(f"{module}.") for name in imported(path))


def imported_modules(path: Path) -> set[str]:
    """Returns the names of the package's own modules that a file imports."""
    found = set()
    for name in imported(path):
        module = name
        while module and module not in modules():
            module = module.rpartition(".")[0]
        found.add(module)
    return found - {""}


_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One block of code between fences."""

    language: str
    code: str


def blocks(text: str) -> list[Block]:
    """Return the blocks of code of a page, in their order."""
    return [Block(*found) for found in _FENCE.findall(text)]


def prose(text: str) -> str:
    """Return a page without its blocks and spans of code."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))


def links(text: str) -> list[str]:
    """Return the targets of a page's links and pictures, without those at other hosts."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)) if "://" not in link]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and Python-Markdown name them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[\s-]+", "-", heading) for heading in words}
