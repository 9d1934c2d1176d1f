"""The directions of imports: between folders, between the parts of a folder, and between modules."""

from __future__ import annotations

import ast
import importlib
import re
from graphlib import TopologicalSorter
from importlib.util import find_spec

import pytest
from helpers.tree import (
    FOLDERS,
    FRAMEWORKS,
    HOMES,
    ROOT,
    from_imports,
    imported,
    imported_modules,
    imports,
    modules,
    parse,
    parts,
)


def test_no_two_modules_import_each_other() -> None:
    graph = {name: imported_modules(path) - {name} for name, path in modules().items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph) > 40


@pytest.mark.parametrize("folder", ["formats", "augment", "bucketing"])
def test_a_folder_below_the_pipeline_imports_no_other_folder(folder: str) -> None:
    for path in modules().values():
        if path.parts[0] == folder:
            for other in {*FOLDERS} - {folder}:
                assert not imports(path, f"stoker.{other}"), path


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_part_of_a_folder_imports_only_parts_above_it_in_the_table_of_the_architecture(folder: str) -> None:
    rows = {part: number for number, row in enumerate(parts(folder)) for part in row}

    def row_of(module: str) -> int | None:
        containing = [part for part in rows if f"{module}.".startswith(f"{part}.")]
        return rows[max(containing, key=len)] if containing else None

    for name, path in modules().items():
        if (row := row_of(name)) is not None:
            for other in imported_modules(path):
                assert (row_of(other) or 0) <= row, (path, other)


def test_imports_are_relative_inside_a_top_level_folder_and_absolute_across() -> None:
    for path in modules().values():
        for level, module, _ in from_imports(path):
            inside = f"{module}.".startswith(f"stoker.{path.parts[0]}.")
            assert bool(level) == inside, (path, module)


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_only_one_file_or_folder_imports_a_framework(package: str) -> None:
    found = {str(path) for path in modules().values() if imports(path, package)}
    assert all(package in HOMES and path.startswith(HOMES[package]) for path in found)


def test_programs_in_strings_import_names_that_exist() -> None:
    """Tests start programs that stand in strings, which no tool checks."""
    pattern = re.compile(r"^\s*from (stoker[\w.]*) import ([\w, ]+)$", re.MULTILINE)
    found = [
        (file, module, name.split(" as ")[0].strip())
        for file in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(parse(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for module, names in pattern.findall(node.value)
        for name in names.split(",")
    ]
    assert len(found) > 20
    for file, module, name in found:
        assert hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}"), file


def test_no_module_unpickles() -> None:
    for path in modules().values():
        assert not {name.partition(".")[0] for name in imported(path)} & {"pickle", "marshal", "shelve"}, path


def test_one_module_opens_images_with_pillow() -> None:
    """Pillow opens any format, and for some runs another program; ``open_image`` names those it may open."""
    found = set()
    for path in modules().values():
        calls = {ast.unparse(node) for node in ast.walk(parse(path)) if isinstance(node, ast.Attribute)}
        if imports(path, "PIL.Image.open") or any(f".{call}".endswith(".Image.open") for call in calls):
            found.add(str(path))
    assert found == {"formats/codecs/header.py"}


def test_every_module_has_a_docstring() -> None:
    for path in modules().values():
        assert ast.get_docstring(parse(path)), path
