"""Text as a source: files of lines or of JSON Lines as one corpus, or lines of parallel files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from stoker.arguments import list_of_names
from stoker.errors import ConfigError

from ...files import read_at
from ...sources.listing import Listing, Skip
from ...sources.source_reader import SkippedError
from .line_format import LineFormat, SampleLines, document_of
from .line_keys import LineKeys
from .lines import LineFile, open_lines
from .row_columns import RowColumns
from .source_files import (
    are_json_lines,
    check_fields,
    check_first,
    check_lines,
    check_together,
    default_fields,
    name_files,
)
from .text_check import START_BYTES, check_text

_LONGEST = 1 << 28  # bytes of a line; a longer one is no text for training


@dataclass(frozen=True, kw_only=True)
class TextListing(Listing):
    """The samples of a text source, in the order of its lines. Keys are ``file:line``; lines count from 1."""

    files: tuple[LineFile, ...]  # The files of the corpus, one after the other
    file_names: tuple[str, ...]  # Name of each file in the keys
    fields: tuple[str, ...]  # Names of the fields, each a sequence of tokens
    json_lines: bool  # Whether a line is a JSON object with the fields
    parallel: bool  # Whether lines of one number form a sample
    left_out: Mapping[int, Skip] = field(default_factory=dict)  # Samples that lack a value, by row
    messages: bool = False  # Whether the only field has the messages of a chat, and no text

    def fingerprint(self) -> str:
        """SHA-256 of names, fields and content, in hexadecimal."""
        digests = [(name, file.digest) for name, file in zip(self.file_names, self.files, strict=True)]
        identity: list[Any] = [self.fields, self.json_lines, digests]
        if len(self.files) > 1 and not self.parallel:
            identity.append("corpus")
        if self.messages:
            identity.append("messages")
        if self.labels is not None or self.columns:
            labels = b"" if self.labels is None else self.labels.to_numpy().tobytes()
            identity.append([sorted(self.columns), self.classes, hashlib.sha256(labels).hexdigest()])
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def read(self, rows: npt.NDArray[np.int64]) -> list[SampleLines]:
        """Read the lines of samples at ``rows``, (M,) int64, M at least 1."""
        long = self.sizes[rows] > _LONGEST
        lines = iter(self._lines(rows[~long]))
        samples = []
        for row, key, is_long in zip(
            rows.tolist(), self.keys.take(rows).to_pylist(), long.tolist(), strict=True
        ):
            content = Skip(key, "line too long", f"more than {_LONGEST} bytes") if is_long else next(lines)
            samples.append(SampleLines(key, self.left_out.get(row, content)))
        return samples

    def texts(self, rows: npt.NDArray[np.int64]) -> list[tuple[Any, ...] | Skip]:
        """Read the values of samples as :meth:`read` reads lines; see :meth:`LineFormat.values`."""
        return list(map(self.format.values, self.read(rows)))

    @property
    def format(self) -> LineFormat:
        """The format of the lines."""
        return LineFormat(self.fields, self.json_lines, self.messages)

    def documents(self, rows: npt.NDArray[np.int64]) -> list[dict[str, Any] | None]:
        """Read the objects at ``rows``, (M,) int64, of JSON Lines; None for a skipped line."""
        long = self.sizes[rows] > _LONGEST
        documents: list[dict[str, Any] | None] = [None] * len(rows)
        for index, (line,) in zip(np.flatnonzero(~long).tolist(), self._lines(rows[~long]), strict=True):
            with suppress(UnicodeDecodeError, SkippedError):
                documents[index] = document_of(line.decode())
        return documents

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
        file_of = np.searchsorted(ends, rows, side="right")
        lines: list[tuple[bytes, ...]] = [()] * len(rows)
        for number in np.unique(file_of).tolist():
            file = self.files[number]
            indices = np.flatnonzero(file_of == number)
            numbers = rows[indices] - (ends[number] - len(file))
            for index, line in zip(indices.tolist(), file.read(numbers), strict=True):
                lines[index] = (line,)
        return lines


@contextmanager
def open_text(
    paths: Sequence[Path],
    fields: Sequence[str] | None,
    scratch: Path,
    *,
    parallel: bool = False,
    columns: RowColumns | None = None,
    messages: bool = False,
) -> Iterator[TextListing]:
    """List the samples of text files, which stay open inside the context."""
    json_lines = are_json_lines(paths)
    check_together(paths, json_lines, parallel)
    chosen = default_fields(paths, json_lines, parallel) if fields is None else fields
    names = list_of_names("fields", chosen)
    check_fields(names, paths, json_lines, parallel)
    wanted = columns or RowColumns()
    wanted.check(names, json_lines)
    further = (*wanted.names, *(names if messages else ()))
    if messages and not json_lines:
        raise ConfigError("messages are values of objects, and files of lines have texts alone")
    with ExitStack() as stack:
        files = tuple(stack.enter_context(open_lines(path, scratch, further)) for path in paths)
        for file in files:
            check_text(file.path, read_at(file.descriptor, 0, START_BYTES))
        check_lines(files, parallel)
        if json_lines:
            for file in files:
                check_first(file, names, wanted.names)
        root, file_names = name_files(paths)
        counted = files[:1] if parallel else files
        number = sum(map(len, counted))
        sizes = [file.sizes for file in files]
        joined = sizes[0] if len(sizes) == 1 else sum(sizes) if parallel else np.concatenate(sizes)
        yield TextListing(
            root=root,
            keys=LineKeys(tuple(file_names[: len(counted)]), tuple(map(len, counted))),
            sizes=cast("npt.NDArray[np.int64]", joined),
            modified=np.broadcast_to(np.int64(max(path.stat().st_mtime_ns for path in paths)), number),
            labels=None,
            classes=(),
            files=files,
            file_names=file_names,
            fields=names,
            json_lines=json_lines,
            parallel=parallel,
            messages=messages,
        )
