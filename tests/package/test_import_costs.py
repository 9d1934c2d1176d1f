"""Imports load no framework, and no package before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.tree import FRAMEWORKS, HOMES, modules

import stoker

HIDE_FRAMEWORKS = f"""
import sys
for name in {FRAMEWORKS}:
    sys.modules[name] = None
"""
"""Code after which imports fail as if no framework were installed."""


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_stoker_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import stoker; print(*sorted(set(sys.modules) - before))"
    loaded = {name.partition(".")[0] for name in python(code).split()}
    assert loaded <= {"stoker", "_xxsubinterpreters"} | set(sys.stdlib_module_names)
    assert not loaded & {"numpy", "pyarrow", "PIL", "lmdb", "rich", "typer"}


def test_the_help_of_the_command_line_loads_no_numpy() -> None:
    code = """
import runpy, sys
sys.argv = ["stoker", "--help"]
try:
    runpy.run_module("stoker", run_name="__main__")
except SystemExit:
    print(*(name for name in ("numpy", "pyarrow", "PIL") if name in sys.modules), sep="", end="END")
"""
    assert python(code).endswith("\nEND")


def test_the_class_image_loader_imports_no_framework() -> None:
    code = "import sys, stoker; stoker.ImageLoader; print(*sys.modules)"
    assert not {name.partition(".")[0] for name in python(code).split()} & set(FRAMEWORKS)


def test_every_module_imports_without_frameworks() -> None:
    adapters = tuple({path for path in HOMES.values() if "adapters" in path} - {HOMES["ml_dtypes"]})
    names = [name for name, path in modules().items() if not str(path).startswith(adapters)]
    code = f"""{HIDE_FRAMEWORKS}
import importlib
for name in {names}:
    importlib.import_module(name)
"""
    python(code)


def test_an_error_names_the_package_that_is_missing() -> None:
    code = f"""{HIDE_FRAMEWORKS}
from stoker.errors import MissingDependencyError
from stoker.pipeline import adapters
from stoker.pipeline.engines import registry
from stoker.pipeline.engines.dali.engine import DaliEngine
from stoker.pipeline.engines.base import EngineSettings, ImageFormat
assert not registry.has_dali()
for name in ("torch", "tensorflow", "jax", "mxnet", "cupy"):
    try:
        adapters.load(adapters.FRAMEWORKS[name], registry.BatchPlacement(None, pin_memory=False))
    except MissingDependencyError as error:
        assert f"pip install {{name}}" in str(error), error
    else:
        raise AssertionError(name)
try:
    DaliEngine(EngineSettings([], [], ImageFormat(), max_pixels=1))
except MissingDependencyError as error:
    assert "pip install nvidia-dali-cuda120" in str(error), error
else:
    raise AssertionError("dali")
"""
    python(code)


def test_all_public_names_exist_and_no_others() -> None:
    assert sorted(stoker.__all__) == stoker.__all__
    for name in stoker.__all__:
        assert getattr(stoker, name) is not None
    assert dir(stoker) == sorted(stoker.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Loader'"):
        stoker.Loader  # noqa: B018 - the access is the test
