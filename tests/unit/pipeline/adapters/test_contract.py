"""The contract of adapters: every row of FRAMEWORKS has a module with the names that the contract lists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from stoker.pipeline import adapters

FOLDER = Path(adapters.__file__).parent
METHODS = {name for name, value in vars(adapters.Adapter).items() if callable(value) and name[0] != "_"}


def definitions(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    return {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


@pytest.mark.parametrize("row", adapters.FRAMEWORKS.values(), ids=lambda row: row.name)
def test_every_framework_has_a_module_with_the_names_of_the_contract(row: adapters.Framework) -> None:
    # Read, not imported: most of the frameworks need not be installed.
    (file,) = {*FOLDER.glob(f"{row.name}.py"), *FOLDER.glob(f"{row.name}/__init__.py")}
    module = definitions(ast.parse(file.read_text()).body)
    if row.borrows:
        assert {"backend", "specialize_loader"} <= module.keys()
        return
    adapter = module["Adapter"]
    assert isinstance(adapter, ast.ClassDef)
    methods = definitions(adapter.body)
    assert {"images", "array", "column", "ragged", "take", "cast", "views", "mix"} == METHODS
    assert methods.keys() >= {"images", "array", "take"}, "the others may be inherited"
    constructor = methods["__init__"]
    assert isinstance(constructor, ast.FunctionDef)
    assert ("pin_memory" in [argument.arg for argument in constructor.args.kwonlyargs]) == row.pins_memory
    assert "sees_gpu" in module


def test_every_adapter_has_a_row_in_the_table() -> None:
    modules = {
        path.relative_to(FOLDER).parts[0].removesuffix(".py")
        for path in FOLDER.rglob("*.py")
        if "Adapter" in definitions(ast.parse(path.read_text()).body) and path != FOLDER / "__init__.py"
    }
    assert modules == {row.name for row in adapters.FRAMEWORKS.values() if not row.borrows}
