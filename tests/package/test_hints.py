"""What messages and hints name exists: functions, arguments, commands and their options.

Strings are collected from the source. A value that is filled in is written as ``{}``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from helpers.tree import FOLDERS

import stoker
from stoker import augment, bucketing
from stoker.errors import ConfigError
from stoker.formats.containers.image_record import FeatureNames
from stoker.pipeline.commands.app import COMMANDS, load_command

ROOT = Path(__file__).resolve().parents[2]
FILES = [path for folder in (*FOLDERS, "src/stoker") for path in sorted((ROOT / folder).rglob("*.py"))]
SHOWN = ("Error", "error", "hint", "fail", "refuse")
"""What the names of functions end with whose arguments a user reads."""
_STYLES = "--grey"
OTHER_PROGRAMS = re.compile(r"\b(ray|zstd|pip|tar|wsl|convert_imageset)\b.*?--.*")
DATASET = stoker.Dataset
OF_SOURCES = (stoker.convert, stoker.append, stoker.open, stoker.Writer)
OF_TEXT = (stoker.convert_text, stoker.append, stoker.TextWriter)
OF_DATASETS = (DATASET.select, DATASET.split, stoker.mix, stoker.merge, stoker.remove, stoker.verify)
DOORS: dict[str, tuple[Any, ...]] = {
    "formats/": (*OF_SOURCES, *OF_TEXT, *OF_DATASETS, stoker.Writer.write, FeatureNames, stoker.ImageLoader),
    "formats/text/": OF_TEXT,
    "formats/sources/": OF_SOURCES,
    "pipeline/images/": (stoker.ImageLoader, stoker.convert, stoker.Patches),
    "pipeline/text/": (stoker.TextLoader, stoker.convert_text),
    "pipeline/adapters/": (stoker.ImageLoader, stoker.TextLoader),
    "pipeline/order/": (stoker.ImageLoader, stoker.TextLoader, stoker.convert_text, *OF_DATASETS),
}
"""The calls that lead into a folder, of which the messages there may name arguments."""
NO_ARGUMENTS = {"boxes", "box_labels", "num_workers", "parts", "shorter", "longer", "squash", "crop", "fill"}
"""Columns of ``Writer.write``, an argument of the DataLoader, an attribute, and values of ``resize``."""
MAKE_COMMANDS = ("pipeline/commands", "pipeline/preview/replay", "formats/splits", "formats/sources/roots")
"""The modules whose texts are parts of commands."""
NAMED = {name: getattr(home, name) for home in (augment, bucketing, stoker) for name in home.__all__}


@cache
def texts() -> list[tuple[str, str]]:
    """All strings of errors, of constants, and that functions return, with their file and line."""
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            found += [(where, text) for text in _strings(node) if " " in text and _STYLES not in text]
    return found


def _strings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and _name(node.func).endswith(SHOWN):
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            yield from _parts(part)
    elif isinstance(node, (ast.Assign, ast.Return)) and node.value is not None:
        yield from _parts(node.value)


def _parts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.BinOp, ast.IfExp)):
        for part in ast.iter_child_nodes(node):
            yield from _parts(part)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@cache
def options_of(command: str) -> frozenset[str]:
    """The options of a command, as they are written."""
    options = load_command(command).params
    return frozenset(flag for option in options for flag in (*option.opts, *option.secondary_opts))


@cache
def parameters(function: Any) -> frozenset[str]:
    """The arguments of a function or class, and the attributes of the option objects that they take."""
    found = set()
    for name, parameter in inspect.signature(function).parameters.items():
        words = re.findall(r"\w+", str(parameter.annotation))
        options = [option for word in words if is_dataclass(option := getattr(stoker, word, None))]
        found |= {name, *(one.name for option in options for one in fields(option))}
    return frozenset(found)


def wrong_commands(text: str) -> Iterator[str]:
    for command, rest in re.findall(r"\bstoker ([a-z][a-z-]*)((?:(?! stoker )[^;:])*)", text):
        known = options_of(command) if command in COMMANDS else frozenset()
        if command not in COMMANDS and command != "marks":  # a comment of a chat template
            yield f"there is no stoker {command}"
        yield from set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rest)) - known


def wrong_functions(text: str) -> Iterator[str]:
    for path in re.findall(r"\bstoker\.([a-zA-Z]\w*(?:\.\w+)*)", text):
        found, module = stoker, "stoker"
        for name in path.split("."):
            module = f"{module}.{name}"
            try:
                found = getattr(found, name, None) or importlib.import_module(module)
            except ImportError:
                yield module
                break


def wrong_calls(text: str) -> Iterator[str]:
    for name, arguments in re.findall(r"\b(\w+)\(((?:[^()]|\([^()]*\))*)\)", text):
        if callable(NAMED.get(name)):
            own = re.sub(r"\w+\([^()]*\)", "", arguments)
            written = set(re.findall(r"(?:^|[\s,(])([a-z_]+)=(?!=)", own))
            both = [vars(home)[name] for home in (augment, bucketing) if name in vars(home)] or [NAMED[name]]
            yield from written - frozenset().union(*map(parameters, both))


@pytest.mark.parametrize("wrong", [wrong_commands, wrong_functions, wrong_calls])
def test_what_a_message_names_exists(wrong: Any) -> None:
    found = [(where, name, text) for where, text in texts() for name in wrong(text)]
    assert found == []


def test_options_are_named_by_commands_alone() -> None:
    found = []
    for where, text in texts():
        without = OTHER_PROGRAMS.sub("", re.sub(r"\bstoker [a-z][^;]*", "", text))
        flags = re.findall(r"(?:^|(?<=[\s(]))--[a-z][a-z-]*(?=[\s,.)]|$)", without.strip())
        known = [flag for flag in flags if any(flag in options_of(command) for command in COMMANDS)]
        if flags and (not where.startswith(MAKE_COMMANDS) or flags != known):
            found.append((where, flags, text))
    assert found == []


def test_an_argument_that_a_message_names_exists_in_the_call_that_shows_it() -> None:
    found = []
    for where, text in texts():
        door = max((folder for folder in DOORS if where.startswith(folder)), key=len, default=None)
        known = frozenset().union(*map(parameters, DOORS[door])) | NO_ARGUMENTS if door else frozenset()
        own = re.sub(r"\w+\((?:[^()]|\([^()]*\))*\)", "", text)
        named = re.findall(r"(?<![\w.(<>=!{'\"-])([a-z][a-z_]+)=(?![=\s])", own) if door else []
        found += [(where, name, text) for name in named if name not in known]
    assert found == []


def test_no_hint_lists_everything() -> None:
    """Names of a user's data are some of them; formats and commands are few."""
    few = re.compile(r"^(calls|commands)$|\b_?[A-Z][A-Z_]+\b")  # of a folder's splits, and constants
    found = [
        (path, ast.unparse(call))
        for path in FILES
        for hint in ast.walk(ast.parse(path.read_text()))
        if isinstance(hint, ast.keyword) and hint.arg == "hint"
        for call in ast.walk(hint.value)
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("', '.join", "'; '.join")
        if not isinstance(call.args[0], ast.Subscript) and not few.search(ast.unparse(call.args[0]))
    ]
    assert found == []


def test_a_command_says_how_its_options_are_written(tmp_path: Path) -> None:
    (shard := tmp_path / "x.tfrecord").write_bytes(bytes(16))
    with pytest.raises(ConfigError, match=r"Set raw=True as well\. On the command line: --raw\."):
        load_command("index").main(
            [str(shard), "--into", str(tmp_path / "out"), "--shape", "3x3x3"], standalone_mode=False
        )
