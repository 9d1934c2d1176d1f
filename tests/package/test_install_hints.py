"""Optional packages: hints name those that pip finds; extras hold what the code imports, as the guide says.

Hints name no extra of Stoker, as no index has Stoker.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from helpers.tree import imported, modules

import stoker

ROOT = Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text()
EXTRAS = PROJECT[PROJECT.index("[project.optional-dependencies]") : PROJECT.index("[dependency-groups]")]
PACKAGES = {re.split(r"[>=<]", item)[0] for item in re.findall(r'"([^"]+)"', EXTRAS)} | {"numpy", "mxnet"}
DEPENDENCIES = PROJECT[PROJECT.index("\ndependencies = [") : PROJECT.index("[project.optional-dependencies]")]
OTHER_NAMES = {
    "pillow_heif": "pillow-heif",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "prometheus_client": "prometheus-client",
    "opentelemetry": "opentelemetry-sdk",
    "nvidia": "nvidia-dali-cuda120",
    "cupy": "cupy-cuda12x",
}
"""Packages whose import has another name."""
WITHOUT_EXTRA = {"mxnet", "ml_dtypes", "_typeshed", "accelerate"}
"""A retired project; a dependency of JAX and TensorFlow; types alone; imported only where it is in use."""


def named_packages(path: Path) -> list[str]:
    """The packages that calls of install_hint and optional_import in a module name."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    first = {"install_hint": 0, "optional_import": 1}  # the first package among the arguments
    hints = [(call, call.func.id) for call in calls if isinstance(call.func, ast.Name)]
    packages = [node for call, name in hints if name in first for node in call.args[first[name] :]]
    return [node.value for node in packages if isinstance(node, ast.Constant)]


def test_the_extras_have_every_package_that_an_error_names() -> None:
    named = {name for path in modules().values() for name in named_packages(Path(path))}
    assert {"tokenizers", "ray", "fsspec", "matplotlib", "nvidia-dali-cuda120"} <= named <= PACKAGES


@pytest.mark.parametrize(
    "folder", ["src/stoker", "formats", "augment", "bucketing", "pipeline", "benchmarks"]
)
def test_no_module_names_an_extra_of_stoker(folder: str) -> None:
    written = [path for path in (ROOT / folder).rglob("*.py") if "stoker[" in path.read_text()]
    assert written == []


def test_the_packages_of_frameworks_are_those_of_the_extras() -> None:
    from stoker.pipeline.adapters import FRAMEWORKS

    assert {row.package or row.name for row in FRAMEWORKS.values()} <= PACKAGES


def extras() -> dict[str, set[str]]:
    """The packages of each extra, with those of the extras that it names."""
    rows = re.findall(r"^([\w-]+) = \[(.*)\]", EXTRAS, re.MULTILINE)
    found: dict[str, set[str]] = {}
    for name, items in rows:
        found[name] = set()
        for item in re.findall(r'"([^"]+)"', items):
            if others := re.fullmatch(r"stoker\[(.+)\]", item):
                found[name].update(*(found[other] for other in others[1].split(",")))
            else:
                found[name].add(re.split(r"[>=<]", item)[0])
    return found


def test_every_import_is_of_a_dependency_or_of_an_extra() -> None:
    named = {name.partition(".")[0] for path in modules().values() for name in imported(path)}
    packages = {OTHER_NAMES.get(name, name) for name in named - set(sys.stdlib_module_names) - {"stoker"}}
    needed = {re.split(r"[>=<]", item)[0] for item in re.findall(r'"([^"]+)"', DEPENDENCIES)}
    assert packages - needed - WITHOUT_EXTRA <= set().union(*extras().values())


def test_the_extra_all_has_every_package_that_needs_no_gpu() -> None:
    found = extras()
    on_a_gpu = set().union(*(found[name] for name in ("dali-cuda12", "dali-cuda13", "cupy")))
    assert found["all"] == set().union(*found.values()) - on_a_gpu
    assert found["all-cuda12"] == found["all"] | found["dali-cuda12"] | found["cupy"]


@pytest.mark.parametrize("name", extras())
def test_the_guide_lists_the_packages_of_an_extra(name: str) -> None:
    guide = (ROOT / "docs/guide/installing.md").read_text()
    (row,) = [line for line in guide.splitlines() if line.startswith(f"| `{name}` |")]
    assert set(re.findall(r"`([\w-]+)`", row)) - {name} - set(extras()) <= extras()[name]
    if not name.startswith("all"):
        assert set(re.findall(r"`([\w-]+)`", row)) >= extras()[name]


@pytest.mark.parametrize("name", ["dali-cuda12", "dali-cuda13", "cupy", "tensorflow"])
def test_an_extra_is_empty_where_its_packages_have_no_build(name: str) -> None:
    marker = {"tensorflow": "python_version < '3.14'"}.get(name, "sys_platform == 'linux'")
    assert re.search(rf"^{name} = .*; {re.escape(marker)}", EXTRAS, re.MULTILINE)


def test_the_project_the_package_and_the_changes_have_one_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert f'\nversion = "{stoker.__version__}"\n' in PROJECT
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == stoker.__version__
