"""Text as a source: lines of a file, fields of JSON Lines, or lines of parallel files."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import ConfigError, SourceError

from ..sources.listing import Listing, Skip
from ..sources.source_reader import SkippedError
from .lines import LineFile, open_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

__all__ = ["TextListing", "open_text"]

_JSON_LINES = (".jsonl", ".ndjson")
_LONGEST = 1 << 28  # bytes of a line; a longer one is no text for training


@dataclass(frozen=True, kw_only=True)
class TextListing(Listing):
    """The samples of a text source, in the order of its lines. Keys are ``file:line``; lines count from 1.

    Attributes:
        files: The file; or the parallel files, one for each field, with equal numbers of lines.
        fields: Names of the fields, each a sequence of tokens.
        json_lines: Whether a line is a JSON object with the fields.
    """

    files: tuple[LineFile, ...]
    fields: tuple[str, ...]
    json_lines: bool

    def fingerprint(self) -> str:
        """SHA-256 of names, fields and content, in hexadecimal."""
        known = [self.fields, self.json_lines, [(file.path.name, file.digest) for file in self.files]]
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()

    def texts(self, rows: npt.NDArray[np.int64]) -> list[tuple[str, ...] | Skip]:
        """Read samples: a text for each field; a skip stands for a sample that is left out.

        Args:
            rows: (M,) int64, M at least 1.

        Raises:
            SourceError: A file has changed since the samples were listed.
        """
        long = self.sizes[rows] > _LONGEST
        keys = self.keys.take(rows).to_pylist()
        lines = zip(*(file.read(rows[~long]) for file in self.files), strict=True) if not long.all() else ()
        found = iter(lines)
        return [
            Skip(key, "line too long", f"more than {_LONGEST} bytes")
            if skip
            else self._text(key, next(found))
            for key, skip in zip(keys, long.tolist(), strict=True)
        ]

    def _text(self, key: str, lines: tuple[bytes, ...]) -> tuple[str, ...] | Skip:
        try:
            texts = tuple(line.decode() for line in lines)
            return _fields_of(texts[0], self.fields) if self.json_lines else texts
        except UnicodeDecodeError as error:
            return Skip(key, "not UTF-8", error.reason)
        except SkippedError as skip:
            return Skip(key, *skip.args)


def _fields_of(line: str, fields: Sequence[str]) -> tuple[str, ...]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SkippedError("not JSON", str(error)) from error
    if not isinstance(document, dict):
        raise SkippedError("not a JSON object", type(document).__name__)
    for field in fields:
        if not isinstance(document.get(field), str):
            raise SkippedError(f"no text in field {field!r}", "")
    texts = tuple(document[field] for field in fields)
    if not _is_unicode(texts):
        raise SkippedError("not Unicode", "half of a surrogate pair")
    return texts


def _is_unicode(texts: tuple[str, ...]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def open_text(paths: Sequence[Path], fields: Sequence[str] | None, scratch: Path) -> Iterator[TextListing]:
    """List the samples of text files, which stay open inside the context.

    Args:
        paths: One file of lines or of JSON Lines (``.jsonl``, ``.ndjson``); or several parallel files
            of lines. Each may be compressed with gzip.
        fields: Names of the fields. For JSON Lines, the fields to read, by default ``text``; for one file of
            lines, ``tokens`` by default; for parallel files, the suffixes or stems in which their names
            differ.
        scratch: Folder on whose disk a compressed file is unpacked.

    Raises:
        ConfigError: The fields are not different names, one for each file of lines.
        SourceError: A file cannot be used, or parallel files have different numbers of lines.
    """
    json_lines = _is_json_lines(paths)
    names = tuple(fields) if fields is not None else _default_fields(paths, json_lines)
    _check_fields(names, paths, json_lines)
    with ExitStack() as stack:
        files = tuple(stack.enter_context(open_lines(path, scratch)) for path in paths)
        _check_files(files)
        if json_lines:
            _check_first(files[0], names)
        number = len(files[0])
        lines = pc.cast(pa.array(np.arange(1, number + 1)), pa.large_string())
        name = pa.scalar(paths[0].name, pa.large_string())
        yield TextListing(
            root=paths[0].parent,
            keys=pc.binary_join_element_wise(name, lines, pa.scalar(":", pa.large_string())),
            sizes=cast("npt.NDArray[np.int64]", sum(file.sizes for file in files)),
            modified=np.broadcast_to(np.int64(0), number),
            labels=pa.array(np.zeros(number, np.int64)),
            classes=(),
            files=files,
            fields=names,
            json_lines=json_lines,
        )


def _is_json_lines(paths: Sequence[Path]) -> bool:
    if not paths:
        raise ConfigError("there is no source: name a text file")
    for path in paths:
        if _bare(path).suffix.lower() == ".json":
            raise SourceError(
                "a .json file is no text source: its lines are no samples",
                path=path,
                hint="write JSON Lines, one object in each line, and name the file .jsonl",
            )
    are_json_lines = {_bare(path).suffix.lower() in _JSON_LINES for path in paths}
    if len(paths) > 1 and True in are_json_lines:
        raise ConfigError("parallel files hold lines of text; JSON Lines are one file with all fields")
    return True in are_json_lines


def _bare(path: Path) -> Path:
    """A path without the suffix of a compressed file."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _default_fields(paths: Sequence[Path], json_lines: bool) -> tuple[str, ...]:
    if json_lines:
        return ("text",)
    if len(paths) == 1:
        return ("tokens",)
    bare = [_bare(path) for path in paths]
    suffixes = tuple(path.suffix.removeprefix(".") for path in bare)
    return suffixes if len(set(suffixes)) == len(bare) else tuple(path.stem for path in bare)


def _check_fields(fields: tuple[str, ...], paths: Sequence[Path], json_lines: bool) -> None:
    if not fields or len(set(fields)) < len(fields) or any(not name or "," in name for name in fields):
        raise ConfigError(
            f"fields must be different names without commas, not {fields}",
            hint="name them with fields=(...) (--fields)",
        )
    if not json_lines and len(fields) != len(paths):
        raise ConfigError(f"there are {len(paths)} files of lines and {len(fields)} fields: {fields}")


def _check_files(files: Sequence[LineFile]) -> None:
    for file in files:
        if len(file) != len(files[0]):
            raise SourceError(
                f"parallel files must have equal numbers of lines: {len(files[0])} in {files[0].path.name}, "
                f"{len(file)} in {file.path.name}",
                path=file.path,
            )
    if not len(files[0]):
        raise SourceError("the file has no lines", path=files[0].path)


def _check_first(file: LineFile, fields: tuple[str, ...]) -> None:
    """Raise SourceError if the first object lacks a field: the name of the field is probably misspelt."""
    try:
        document: Any = json.loads(file.read(np.zeros(1, np.int64))[0])
    except (ValueError, RecursionError):
        return  # a bad line is skipped, or refused, when it is converted
    if isinstance(document, dict) and not document.keys() >= set(fields):
        there = [name for name, value in document.items() if isinstance(value, str)]
        raise SourceError(
            f"the first line has no field {next(name for name in fields if name not in document)!r}",
            path=file.path,
            hint=f"choose with fields=(...) (--fields) from: {', '.join(there)}",
        )
