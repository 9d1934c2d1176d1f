"""What importing costs and needs, and in which direction imports point."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import stoker

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "stoker"
FOLDERS = ("formats", "augment", "bucketing", "pipeline")
PIPELINE = (
    ("execution",),
    ("order",),
    ("caching",),
    ("engines",),
    ("adapters",),
    ("images", "text"),
    ("preview",),
    ("commands",),
)
FRAMEWORKS = ("torch", "tensorflow", "jax", "nvidia", "ml_dtypes", "lightning", "keras", "mxnet", "cupy")
HOME = {
    "torch": "pipeline/adapters/torch.py",
    "tensorflow": "pipeline/adapters/tensorflow.py",
    "jax": "pipeline/adapters/jax.py",
    "keras": "pipeline/adapters/keras.py",
    "mxnet": "pipeline/adapters/mxnet.py",
    "cupy": "pipeline/adapters/cupy.py",
    "nvidia": "pipeline/engines/dali/",
    "ml_dtypes": "pipeline/adapters/numpy.py",
}


# Parts of formats/, from the lowest up: each imports only from itself and from those before it.
FORMATS_ORDER = (
    "files",
    "concurrency",
    "remote",
    "codecs",
    "containers",
    "dataset",
    "caching",
    "open",
    "sources",
    "conversion",
    "external",
    "text",
    "verification",
)


def modules() -> list[Path]:
    """Python files of the four folders, relative to the root."""
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 40
    return [file.relative_to(ROOT) for file in files]


@cache
def import_nodes(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """All import statements of a file, wherever in it."""
    tree = ast.parse((ROOT / path).read_text())
    return [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


def module_of(path: Path, node: ast.ImportFrom) -> str:
    """Full name of the module that ``from ... import`` names in a file."""
    if not node.level:
        return node.module or ""
    package = ("stoker", *path.parent.parts)
    return ".".join((*package[: len(package) - node.level + 1], *filter(None, [node.module])))


@cache
def imported(path: Path) -> set[str]:
    """Full names of all modules that a file imports, wherever in it."""
    names = set()
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            names |= {f"{module_of(path, node)}.{alias.name}" for alias in node.names}
    return names


def import_graph() -> dict[str, set[str]]:
    """Full names of the package's modules that each of them imports, wherever in it."""
    names = {path: ".".join(("stoker", *path.with_suffix("").parts)) for path in modules()}
    names |= {path.relative_to(ROOT): f"stoker.{path.stem}" for path in PACKAGE.glob("*.py")}
    names = {path: name.removesuffix(".__init__") for path, name in names.items()}
    known = {*names.values(), "stoker._native"}
    graph = {}
    for path, name in names.items():
        found = {each if each in known else each.rpartition(".")[0] for each in imported(path)}
        graph[name] = (found & known) - {name}
    return graph | {"stoker._native": set()}


def needs(path: Path, module: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for name in imported(path))


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_stoker_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import stoker; print(*sorted(set(sys.modules) - before))"
    loaded = {name.partition(".")[0] for name in python(code).split()}
    assert loaded <= {"stoker", "importlib", "typing", "warnings"} | set(sys.stdlib_module_names)
    assert not loaded & {"numpy", "pyarrow", "PIL", "lmdb", "rich", "typer"}


def test_loading_images_as_numpy_needs_no_framework() -> None:
    code = "import sys, stoker; stoker.ImageLoader; print(*sys.modules)"
    assert not {name.partition(".")[0] for name in python(code).split()} & set(FRAMEWORKS)


def test_every_module_imports_without_frameworks() -> None:
    adapters = {path for path in HOME.values() if path.startswith("pipeline/adapters/")} - {HOME["ml_dtypes"]}
    names = [
        "stoker." + ".".join(path.with_suffix("").parts)
        for path in modules()
        if str(path) not in adapters and path.stem != "__init__"
    ]
    code = f"""
import sys
for name in {FRAMEWORKS}:
    sys.modules[name] = None
import importlib
for name in {names}:
    importlib.import_module(name)
"""
    python(code)


def test_missing_packages_are_named() -> None:
    code = f"""
import sys
for name in {FRAMEWORKS}:
    sys.modules[name] = None
from stoker.errors import MissingDependencyError
from stoker.pipeline import adapters
from stoker.pipeline.engines import devices
from stoker.pipeline.engines.dali import DaliEngine
from stoker.pipeline.engines.base import Output
assert not devices.has_dali()
for name in ("torch", "tensorflow", "jax", "mxnet", "cupy"):
    try:
        adapters.load(adapters.FRAMEWORKS[name], devices.BatchPlacement(None, pin_memory=False))
    except MissingDependencyError as error:
        assert f"pip install {{name}}" in str(error), error
    else:
        raise AssertionError(name)
try:
    DaliEngine([], [], Output(), max_pixels=1)
except MissingDependencyError as error:
    assert "stoker[dali-cuda12]" in str(error), error
else:
    raise AssertionError("dali")
"""
    python(code)


def test_every_public_name_is_there() -> None:
    assert sorted(stoker.__all__) == stoker.__all__
    for name in stoker.__all__:
        assert getattr(stoker, name) is not None
    assert dir(stoker) == sorted(stoker.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Loader'"):
        stoker.Loader  # noqa: B018 - the access is the test


@pytest.mark.parametrize("package", [*FRAMEWORKS])
def test_a_framework_is_imported_in_one_place(package: str) -> None:
    found = {str(path) for path in modules() if needs(path, package)}
    assert all(package in HOME and path.startswith(HOME[package]) for path in found)


@pytest.mark.parametrize(
    ("folder", "not_from"),
    [
        ("formats", ("augment", "bucketing", "pipeline")),
        ("augment", ("formats", "bucketing", "pipeline")),
        ("bucketing", ("formats", "augment", "pipeline")),
    ],
)
def test_imports_point_one_way(folder: str, not_from: tuple[str, ...]) -> None:
    for path in modules():
        if path.parts[0] == folder:
            for other in not_from:
                assert not needs(path, f"stoker.{other}"), path


def test_folders_of_the_pipeline_import_from_those_below() -> None:
    level = {folder: number for number, folders in enumerate(PIPELINE) for folder in folders}
    for path in modules():
        if path.parts[0] == "pipeline" and len(path.parts) > 2:
            for folder in level.keys() - {path.parts[1]}:
                below = level[folder] < level[path.parts[1]]
                assert below or not needs(path, f"stoker.pipeline.{folder}"), (path, folder)


def test_nobody_unpickles() -> None:
    for path in modules():
        assert not {name.partition(".")[0] for name in imported(path)} & {"pickle", "marshal", "shelve"}, path


def test_every_module_says_what_is_public() -> None:
    for path in modules():
        tree = ast.parse((ROOT / path).read_text())
        assert ast.get_docstring(tree), path
        if path.stem == "__init__":
            continue
        names = [
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        assert "__all__" in names, path
