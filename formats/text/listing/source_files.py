"""Files that form one source of text: checks that they fit each other, and the names of their fields."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stoker.errors import ConfigError, SourceError

from .lines import LineFile

_JSON_LINES = (".jsonl", ".ndjson")
_PARQUET = ".parquet"  # its columns are read as JSON Lines


def name_files(paths: Sequence[Path]) -> tuple[Path, tuple[str, ...]]:
    """The folder of files, and their different names in it."""
    names = tuple(path.name for path in paths)
    if len(set(names)) == len(names):
        return paths[0].parent, names
    root = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    return root, tuple(path.absolute().relative_to(root).as_posix() for path in paths)


def are_json_lines(paths: Sequence[Path]) -> bool:
    """Whether files hold JSON Lines, by their names."""
    if not paths:
        raise ConfigError("there is no source: name a text file")
    for path in paths:
        if _bare(path).suffix.lower() == ".json":
            raise SourceError(
                "a .json file is no text source: its lines are no samples",
                path=path,
                hint="write JSON Lines, one object in each line, and name the file .jsonl",
            )
    kinds = {_bare(path).suffix.lower() in (*_JSON_LINES, _PARQUET) for path in paths}
    if len(kinds) > 1:
        raise ConfigError("files of lines and files of JSON Lines cannot form one corpus")
    return True in kinds


def check_together(paths: Sequence[Path], json_lines: bool, parallel: bool) -> None:
    """Raise ConfigError for files that cannot be one source."""
    if parallel and json_lines:
        raise ConfigError("parallel files hold lines of text; JSON Lines hold all fields in one file")
    if parallel and len(paths) < 2:
        raise ConfigError("parallel files are two or more", hint="name a file for each field")
    real = [os.path.realpath(path) for path in paths]
    twice = [path for number, path in enumerate(paths) if real.index(real[number]) < number]
    if twice:
        raise ConfigError("a file of text is named twice", path=twice[0])


def _bare(path: Path) -> Path:
    """A path without the suffix of a compressed file."""
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path


def default_fields(paths: Sequence[Path], json_lines: bool, parallel: bool) -> tuple[str, ...]:
    """Names of the fields where none are given."""
    if json_lines:
        return ("text",)
    if not parallel:
        return ("tokens",)
    bare = [_bare(path) for path in paths]
    suffixes = tuple(path.suffix.removeprefix(".") for path in bare)
    return suffixes if len(set(suffixes)) == len(bare) else tuple(path.stem for path in bare)


def check_fields(fields: tuple[str, ...], paths: Sequence[Path], json_lines: bool, parallel: bool) -> None:
    """Raise ConfigError unless the fields are different names that fit the files."""
    if not fields or len(set(fields)) < len(fields) or any(not name or "," in name for name in fields):
        raise ConfigError(
            f"fields must be different names without commas, not {fields}",
            hint="name them with fields=(...) (--fields)",
        )
    if parallel and len(fields) != len(paths):
        raise ConfigError(f"there are {len(paths)} parallel files and {len(fields)} fields: {fields}")
    if not parallel and not json_lines and len(fields) > 1:
        raise ConfigError(
            f"files of lines are one corpus with one field, and there are {len(fields)} fields: {fields}",
            hint="for parallel files, whose lines of one number form a sample, give parallel=True "
            "(--parallel)",
        )


def check_lines(files: Sequence[LineFile], parallel: bool) -> None:
    """Raise SourceError for parallel files with different numbers of lines, and for files without lines."""
    for file in files if parallel else ():
        if len(file) != len(files[0]):
            raise SourceError(
                f"parallel files must have equal numbers of lines: {len(files[0])} in {files[0].path.name}, "
                f"{len(file)} in {file.path.name}",
                path=file.path,
            )
    if not any(map(len, files)):
        raise SourceError("the file has no lines", path=files[0].path)


def check_first(file: LineFile, fields: tuple[str, ...], columns: Collection[str] = ()) -> None:
    """Raise SourceError if the first object lacks a field or a column: the name is probably misspelt."""
    if not len(file):
        return
    try:
        document: Any = json.loads(file.read(np.zeros(1, np.int64))[0])
    except (ValueError, RecursionError):
        return  # a bad line is skipped, or refused, when it is converted
    if not isinstance(document, dict):
        return
    if missing := [name for name in fields if name not in document]:
        texts = [name for name, value in document.items() if isinstance(value, str)]
        raise SourceError(
            f"the first line has no field {missing[0]!r}",
            path=file.path,
            hint=f"choose with fields=(...) (--fields) from: {', '.join(texts)}",
        )
    if missing := [name for name in columns if name not in document]:
        raise SourceError(
            f"the first line has no value {missing[0]!r}",
            path=file.path,
            hint=f"choose label and columns (--label, --columns) from: {', '.join(document)}",
        )
