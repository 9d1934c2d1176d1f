"""The import statements of the package's modules, for tests of what may import what."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = ("formats", "augment", "bucketing", "pipeline")
FRAMEWORKS = ("torch", "tensorflow", "jax", "nvidia", "ml_dtypes", "lightning", "keras", "mxnet", "cupy")
HOMES = {
    "torch": "pipeline/adapters/torch.py",
    "tensorflow": "pipeline/adapters/tensorflow.py",
    "jax": "pipeline/adapters/jax.py",
    "keras": "pipeline/adapters/keras.py",
    "mxnet": "pipeline/adapters/mxnet.py",
    "cupy": "pipeline/adapters/cupy.py",
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
