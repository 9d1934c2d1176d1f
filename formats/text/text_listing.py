"""Text as a source: files of lines or of JSON Lines as one corpus, or lines of parallel files."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stoker.arguments import list_of_names
from stoker.errors import ConfigError, SourceError

from ..files.reading import read_at
from ..sources.listing import Listing, Skip
from ..sources.source_reader import SkippedError
from .lines import LineFile, open_lines
from .text_check import START_BYTES, check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

__all__ = ["TextListing", "open_text"]

_JSON_LINES = (".jsonl", ".ndjson")
_PARQUET = ".parquet"  # its texts are read as JSON Lines
_LONGEST = 1 << 28  # bytes of a line; a longer one is no text for training


@dataclass(frozen=True, kw_only=True)
class TextListing(Listing):
    """The samples of a text source, in the order of its lines. Keys are ``file:line``; lines count from 1.

    Attributes:
        files: The files of the corpus, one after the other; or the parallel files, one for each field, with
            equal numbers of lines.
        file_names: Name of each file in the keys.
        fields: Names of the fields, each a sequence of tokens.
        json_lines: Whether a line is a JSON object with the fields.
        parallel: Whether lines of one number form a sample.
    """

    files: tuple[LineFile, ...]
    file_names: tuple[str, ...]
    fields: tuple[str, ...]
    json_lines: bool
    parallel: bool

    def fingerprint(self) -> str:
        """SHA-256 of names, fields and content, in hexadecimal."""
        digests = [(name, file.digest) for name, file in zip(self.file_names, self.files, strict=True)]
        known: list[Any] = [self.fields, self.json_lines, digests]
        if len(self.files) > 1 and not self.parallel:
            known.append("corpus")
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
        found = iter(self._lines(rows[~long]))
        return [
            Skip(key, "line too long", f"more than {_LONGEST} bytes")
            if skip
            else self._text(key, next(found))
            for key, skip in zip(keys, long.tolist(), strict=True)
        ]

    def path_of(self, key: str) -> Path:
        """Path of the file that holds the sample ``key``."""
        if len(self.files) == 1:
            return self.files[0].path
        return self.files[self.file_names.index(key.rpartition(":")[0])].path

    def _lines(self, rows: npt.NDArray[np.int64]) -> Iterable[tuple[bytes, ...]]:
        """The lines of each sample, one from each parallel file."""
        if not len(rows):
            return []
        if self.parallel:
            return zip(*(file.read(rows) for file in self.files), strict=True)
        ends = np.cumsum([len(file) for file in self.files])
        which = np.searchsorted(ends, rows, side="right")
        found: list[tuple[bytes, ...]] = [()] * len(rows)
        for number in np.unique(which).tolist():
            at = np.flatnonzero(which == number)
            file = self.files[number]
            for place, line in zip(
                at.tolist(), file.read(rows[at] - (ends[number] - len(file))), strict=True
            ):
                found[place] = (line,)
        return found

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
def open_text(
    paths: Sequence[Path], fields: Sequence[str] | None, scratch: Path, *, parallel: bool = False
) -> Iterator[TextListing]:
    """List the samples of text files, which stay open inside the context.

    Args:
        paths: Files of lines, or of JSON Lines (``.jsonl``, ``.ndjson``), in the order of the corpus. Each
            may be compressed with gzip or zstd. Or Parquet files, whose columns of texts are fields.
        fields: Names of the fields. For JSON Lines, the fields to read, by default ``text``; for lines,
            ``tokens`` by default; for parallel files, by default the suffixes or stems in which their names
            differ.
        scratch: Folder on whose disk a compressed file is unpacked.
        parallel: Whether the lines of one number of all files form a sample, with a field for each file.

    Raises:
        ConfigError: The fields are not different names, one for each parallel file; or the files do not fit
            each other.
        SourceError: A file cannot be used, or parallel files have different numbers of lines.
    """
    json_lines = _is_json_lines(paths)
    _check_together(paths, json_lines, parallel)
    if fields is None:
        names = _default_fields(paths, json_lines, parallel)
    else:
        names = list_of_names("fields", fields)
    _check_fields(names, paths, json_lines, parallel)
    with ExitStack() as stack:
        files = tuple(stack.enter_context(open_lines(path, scratch)) for path in paths)
        for file in files:
            check_text(file.path, read_at(file.descriptor, 0, START_BYTES))
        _check_files(files, parallel)
        if json_lines:
            for file in files:
                _check_first(file, names)
        root, listed = _file_names(paths)
        counted = files[:1] if parallel else files
        number = sum(map(len, counted))
        keys = [_keys(name, len(file)) for name, file in zip(listed, counted, strict=not parallel)]
        sizes = [file.sizes for file in files]
        yield TextListing(
            root=root,
            keys=pa.concat_arrays(keys),
            sizes=cast("npt.NDArray[np.int64]", sum(sizes) if parallel else np.concatenate(sizes)),
            modified=np.broadcast_to(np.int64(max(path.stat().st_mtime_ns for path in paths)), number),
            labels=pa.array(np.zeros(number, np.int64)),
            classes=(),
            files=files,
            file_names=listed,
            fields=names,
            json_lines=json_lines,
            parallel=parallel,
        )


def _file_names(paths: Sequence[Path]) -> tuple[Path, tuple[str, ...]]:
    """The folder of files, and their different names in it."""
    names = tuple(path.name for path in paths)
    if len(set(names)) == len(names):
        return paths[0].parent, names
    root = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    return root, tuple(path.absolute().relative_to(root).as_posix() for path in paths)


def _keys(name: str, lines: int) -> pa.Array:
    """(lines,) large_string, the keys of a file's lines."""
    numbers = pc.cast(pa.array(np.arange(1, lines + 1)), pa.large_string())
    return pc.binary_join_element_wise(
        pa.scalar(name, pa.large_string()), numbers, pa.scalar(":", pa.large_string())
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
    are_json_lines = {_bare(path).suffix.lower() in (*_JSON_LINES, _PARQUET) for path in paths}
    if len(are_json_lines) > 1:
        raise ConfigError("files of lines and files of JSON Lines cannot form one corpus")
    return True in are_json_lines


def _check_together(paths: Sequence[Path], json_lines: bool, parallel: bool) -> None:
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


def _default_fields(paths: Sequence[Path], json_lines: bool, parallel: bool) -> tuple[str, ...]:
    if json_lines:
        return ("text",)
    if not parallel:
        return ("tokens",)
    bare = [_bare(path) for path in paths]
    suffixes = tuple(path.suffix.removeprefix(".") for path in bare)
    return suffixes if len(set(suffixes)) == len(bare) else tuple(path.stem for path in bare)


def _check_fields(fields: tuple[str, ...], paths: Sequence[Path], json_lines: bool, parallel: bool) -> None:
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


def _check_files(files: Sequence[LineFile], parallel: bool) -> None:
    for file in files if parallel else ():
        if len(file) != len(files[0]):
            raise SourceError(
                f"parallel files must have equal numbers of lines: {len(files[0])} in {files[0].path.name}, "
                f"{len(file)} in {file.path.name}",
                path=file.path,
            )
    if not any(map(len, files)):
        raise SourceError("the file has no lines", path=files[0].path)


def _check_first(file: LineFile, fields: tuple[str, ...]) -> None:
    """Raise SourceError if the first object lacks a field: the name of the field is probably misspelt."""
    if not len(file):
        return
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
