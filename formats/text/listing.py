"""Text as a source: the lines of files, or texts of a program, with their fields, labels and columns."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.arguments import list_of_names, some_of
from stoker.errors import ConfigError, SourceError

from ..containers.webdataset import field_of
from ..conversion.samples import ColumnType, check_names, number_column, store_value, types_of
from ..dataset.columns import Strings
from ..files import is_unicode, modified_ns, os_errors
from ..sources.classes import check_classes, check_labels, number_classes
from ..sources.columns import EntryColumns
from ..sources.image_files import SkippedError
from ..sources.listing import BLANK, Listing, Skip, check_damage
from .lines import CHAT_VALUES, LONGEST, TO_UTF8, Copies, LineFile, LineKeys, bare, names_in, open_lines


class SampleLines(NamedTuple):
    """A sample as it is in the source."""

    key: str  # Name of the sample
    # Its line, or one line from each parallel file; a skip for a sample that is left out
    lines: tuple[bytes, ...] | Skip


@dataclass(frozen=True)
class LineFormat:
    """The format of the lines of a source."""

    fields: tuple[str, ...]  # Names of the fields of a sample
    json_lines: bool  # Whether a line is a JSON object with the fields; else each line is a field
    messages: bool  # Whether the only field has the messages of a chat, and no text

    def values(self, sample: SampleLines) -> tuple[Any, ...] | Skip:
        """Return a text for each field, or messages and template variables; a skip for one left out."""
        key, lines = sample
        if isinstance(lines, Skip):
            return lines
        try:
            texts = tuple(line.decode() for line in lines)
            if not self.json_lines:
                return Skip(key, "a zero byte") if any("\0" in text for text in texts) else texts
            document = _document_of(texts[0])
            return _messages_of(document, self.fields) if self.messages else _fields_of(document, self.fields)
        except UnicodeDecodeError as error:
            return Skip(key, "not UTF-8", f"{error.reason}; {TO_UTF8} converts Latin-1")
        except RecursionError:
            return Skip(key, "nested too deep")
        except SkippedError as skip:
            return Skip(key, *skip.args)


def _document_of(line: str) -> dict[str, Any]:
    if not line.strip():
        raise SkippedError(BLANK, "")
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SkippedError("not JSON", str(error)) from error
    if not isinstance(document, dict):
        raise SkippedError("not a JSON object", type(document).__name__)
    return document


def _fields_of(document: dict[str, Any], fields: Sequence[str]) -> tuple[str, ...]:
    texts = tuple(field_of(document, name) for name in fields)
    for name, text in zip(fields, texts, strict=True):
        if not isinstance(text, str):
            is_chat = isinstance(text, list) and isinstance([*text, None][0], dict)
            cure = ", but messages: give messages= in place of fields" if is_chat else ""
            raise SkippedError(f"no text in field {name!r}{cure}", "")
    if not is_unicode("".join(texts)):
        raise SkippedError("not Unicode", "half of a surrogate pair")
    return texts


def _messages_of(document: dict[str, Any], fields: Sequence[str]) -> tuple[Any, ...]:
    """The messages of each field, and the variables of the template."""
    pairs = len(fields) == 3  # of which the prompt may be a text that the answers have as messages, too
    chats = [
        field_of(document, name)
        if pairs and name == fields[0] and isinstance(field_of(document, name), str)
        else _chat_of(document, name)
        for name in fields
    ]
    system = document.get("system")
    if system and isinstance(system, str):  # as LLaMA-Factory and axolotl read it
        for number, chat in enumerate(chats):
            role = chat[0]["role"] if isinstance(chat, list) else "system"
            if role == "user" or (number == 0 and role not in ("system", "developer")):
                chat.insert(0, {"role": "system", "content": system})
    return (*chats, _variables_of(document))


def _chat_of(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    chat = field_of(document, name)
    if isinstance(chat, str):  # tables may have messages as JSON
        with suppress(ValueError, RecursionError):
            chat = json.loads(chat)
    if isinstance(chat, dict):  # an answer that is one message
        chat = [chat]
    if not isinstance(chat, list) or not chat or not all(isinstance(message, dict) for message in chat):
        raise SkippedError(f"no messages in {name!r}", "")
    messages = [_with_role(message, name) for message in _without_nulls(chat)]
    if any(not isinstance(message.get("role"), str) for message in messages):
        raise SkippedError(f"a message without a role in {name!r}", "")
    return messages


_SHAREGPT = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "assistant", "model"), "assistant"),
    **dict.fromkeys(("tool", "observation", "function_response"), "tool"),
    "system": "system",
}


def _with_role(message: dict[str, Any], name: str) -> dict[str, Any]:
    """A message with role and content; ShareGPT has "from" and "value" in their place."""
    if "role" in message or not {"from", "value"} <= message.keys():
        return message
    others = {key: value for key, value in message.items() if key not in ("from", "value")}
    if (role := _SHAREGPT.get(str(message["from"]))) is None:
        raise SkippedError(f"a message from neither human nor gpt in {name!r}", str(message["from"]))
    return {**others, "role": role, "content": message["value"]}


def _variables_of(document: dict[str, Any]) -> dict[str, Any]:
    """The variables that a sample gives to its template, as trl's SFTTrainer reads them."""
    tools, variables = (_parsed(name, document.get(name)) for name in CHAT_VALUES[:2])
    if not isinstance(tools or [], list) or not all(isinstance(tool, dict) for tool in tools or ()):
        raise SkippedError(f"no list of tools in {CHAT_VALUES[0]!r}", "")
    if not isinstance(variables or {}, dict):
        raise SkippedError(f"no object in {CHAT_VALUES[1]!r}", "")
    return {**(variables or {}), **({} if tools is None else {"tools": tools})}


def _parsed(name: str, value: Any) -> Any:
    """A value, which may be the text of JSON, because tables give all rows the keys of all others."""
    if not isinstance(value, str):
        return _without_nulls(value)
    try:
        return json.loads(value) if value else None
    except (ValueError, RecursionError) as error:
        raise SkippedError(f"not JSON in {name!r}", str(error)) from error


def _without_nulls(value: Any) -> Any:
    """A value without the keys whose value is null: tables store them for keys that other rows have."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _check_files(paths: Sequence[Path], parallel: bool) -> None:
    if not paths:
        raise ConfigError("there is no source: name a text file")
    if parallel and len(paths) < 2:
        raise ConfigError("parallel files are two or more", hint="Name a file for each field.")
    names: set[str] = set()
    for path in paths:
        if (real := os.path.realpath(path)) in names:
            raise ConfigError("a file of text is named twice", path=path)
        names.add(real)


_JSON_LINES = (".jsonl", ".ndjson")


def _is_named(file: LineFile) -> bool:
    return bare(file.path).suffix.lower() in _JSON_LINES


def _hold_json_lines(files: Sequence[LineFile], parallel: bool) -> bool:
    """Whether the files of a corpus hold JSON Lines, by their names or by their first lines."""
    if parallel:
        if any(file.is_table or _is_named(file) for file in files):
            raise ConfigError("parallel files hold lines of text; JSON Lines hold all fields in one file")
        return False
    forms = {file.path: form for file in files if (form := _is_named(file) or file.holds_objects) is not None}
    if len(set(forms.values())) > 1:
        plain = next(path for path, form in forms.items() if not form)
        raise ConfigError(
            "files of lines and files of JSON Lines cannot form one corpus",
            path=plain,
            hint="A line of this file is no object, and the first lines of another file all are.",
        )
    return True in forms.values()


def _default_fields(paths: Sequence[Path], json_lines: bool, parallel: bool) -> tuple[str, ...]:
    if not parallel:
        return ("text",) if json_lines else ("tokens",)
    plain = [bare(path) for path in paths]
    suffixes = tuple(path.suffix.removeprefix(".") for path in plain)
    return suffixes if len(set(suffixes)) == len(plain) else tuple(path.stem for path in plain)


def _check_fields(fields: tuple[str, ...], paths: Sequence[Path], json_lines: bool, parallel: bool) -> None:
    if not fields or len(set(fields)) < len(fields) or any(not name or "," in name for name in fields):
        raise ConfigError(
            f"fields must be different names without commas, not {fields}",
            hint="Name them with fields=(...).",
        )
    if parallel and len(fields) != len(paths):
        raise ConfigError(f"there are {len(paths)} parallel files and {len(fields)} fields: {fields}")
    if not parallel and not json_lines and len(fields) > 1:
        raise ConfigError(
            f"files of lines are one corpus with one field, and there are {len(fields)} fields: {fields}",
            hint="For parallel files, whose lines of one number form a sample, give parallel=True.",
        )


def _check_lines(files: Sequence[LineFile], parallel: bool) -> None:
    for file in files if parallel else ():
        if len(file) != len(files[0]):
            raise SourceError(
                f"parallel files must have equal numbers of lines: {len(files[0])} in {files[0].path.name}, "
                f"{len(file)} in {file.path.name}",
                path=file.path,
            )
    if not any(map(len, files)):
        raise SourceError("the file has no lines", path=files[0].path)


def _check_first(
    file: LineFile, fields: tuple[str, ...], columns: tuple[str, ...], messages: bool = False
) -> None:
    """Raise SourceError if a table or the first object lacks a field or a column: it is probably misspelt."""
    names = file.values
    texts = [name for name, is_text in names.items() if is_text]
    outer = {name.rpartition(".")[0] for name in names}
    fitting = texts if file.is_table else names.keys() - outer
    lists = [name for name, is_text in names.items() if not is_text]
    asked: Any = ("with fields=(...)", fields, fitting, texts, "a text; name chats with messages=")
    if messages:
        asked = ("with messages=", fields, names, lists, "a list")
    for kind, option, wanted, found, choice, form in (
        ("field", *asked),
        ("value", "label and columns", columns, names, list(names), "a value"),
    ):
        if names and (missing := [name for name in wanted if name not in found]):
            where = "table" if file.is_table else "first line"
            raise SourceError(
                f"the {where} has no {kind} {missing[0]!r}{' of texts' if missing[0] in names else ''}",
                path=file.path,
                hint=f"Choose {option} from: {some_of(choice) or f'none of its values is {form}'}.",
            )


_OF_BATCHES = {
    *("input_ids", "attention_mask", "completion_mask", "labels", "loss_weights", "position_ids"),
    *("segment_ids", "cu_seqlens", "max_seqlen"),
}


@dataclass(frozen=True)
class RowColumns:
    """The values of a sample that become columns of the index."""

    # Name of the value that is the class of a sample; None if samples have no classes
    label: str | None = None
    columns: Sequence[str] = ()  # Names of further numbers and texts
    # Names of the classes, label 0 first; None takes the sorted names in the source
    classes: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_names(list_of_names("columns", self.columns))
        if len(set(self.columns)) < len(self.columns):
            raise ConfigError(f"columns must be different names, not {self.columns}")
        if check_classes(self.classes) is not None and self.label is None:
            raise ConfigError(
                "classes name labels, and no label is read",
                hint="Say with label= which value of a sample it is.",
            )
        if self.label is not None and not (isinstance(self.label, str) and self.label):
            raise ConfigError(f"label must be the name of a value, not {self.label!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all values that are read."""
        return (*([] if self.label is None else [self.label]), *self.columns)

    def check(self, fields: Iterable[str], json_lines: bool) -> None:
        """Check the columns against the fields of the text."""
        if self.names and not json_lines:
            raise ConfigError(
                "label and columns are values of objects, and files of lines have texts alone",
                hint="Write JSON Lines, one object in each line.",
            )
        derived = {f"{field}_{end}" for field in fields for end in ("length", "trained")}
        if taken := (derived | _OF_BATCHES) & set(self.columns):
            raise ConfigError(
                f"column {min(taken)!r} is a name that the index and batches use themselves",
                hint="Rename it in the source.",
            )


@dataclass(frozen=True, kw_only=True)
class TextListing(Listing):
    """The samples of a text source, in the order of its lines. Keys are ``file:line``; lines count from 1."""

    files: tuple[LineFile, ...]  # The files of the corpus, one after the other
    file_names: tuple[str, ...]  # Name of each file in the keys
    format: LineFormat  # The format of the lines
    parallel: bool = False  # Whether lines of one number form a sample
    left_out: Mapping[int, Skip] = field(default_factory=dict)  # Samples that lack a value, by row

    def fingerprint(self) -> str:
        """SHA-256 of names, fields and content, in hexadecimal."""
        digests = [(name, file.digest) for name, file in zip(self.file_names, self.files, strict=True)]
        identity: list[Any] = [self.format.fields, self.format.json_lines, digests]
        if len(self.files) > 1 and not self.parallel:
            identity.append("corpus")
        if self.format.messages:
            identity.append("messages")
        if self.labels is not None or self.columns:
            labels = b"" if self.labels is None else self.labels.to_numpy().tobytes()
            identity.append([sorted(self.columns), self.classes, hashlib.sha256(labels).hexdigest()])
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def read(self, rows: npt.NDArray[np.int64]) -> list[SampleLines]:
        """Read the lines of samples at ``rows``, (M,) int64, M at least 1."""
        samples = []
        keys = self.keys.take(rows).to_pylist()
        for row, key, lines in zip(rows.tolist(), keys, self._lines(rows), strict=True):
            content = Skip(key, "line too long", f"more than {LONGEST} bytes") if lines is None else lines
            samples.append(SampleLines(key, self.left_out.get(row, content)))
        return samples

    def documents(self, rows: npt.NDArray[np.int64]) -> list[dict[str, Any] | None]:
        """Read the objects at ``rows``, (M,) int64, of JSON Lines; None for a skipped line."""
        documents: list[dict[str, Any] | None] = [None] * len(rows)
        for index, lines in enumerate(self._lines(rows)):
            with suppress(UnicodeDecodeError, SkippedError):
                documents[index] = None if lines is None else _document_of(lines[0].decode())
        return documents

    @property
    def place(self) -> Path:
        return self.files[0].path if len(self.files) == 1 else Path(self.root).absolute()

    def path_of(self, key: str) -> Path:
        """Path of the file that holds the sample ``key``."""
        if len(self.files) == 1:
            return self.files[0].path
        return self.files[self.file_names.index(key.rpartition(":")[0])].path

    def _lines(self, rows: npt.NDArray[np.int64]) -> list[tuple[bytes, ...] | None]:
        """The lines of each sample, one from each parallel file; None for lines that are too long."""
        lines: list[tuple[bytes, ...] | None] = [None] * len(rows)
        short = np.flatnonzero(self.sizes[rows] <= LONGEST)
        groups = [self.files] if self.parallel else [(file,) for file in self.files]
        starts = np.cumsum([0, *(len(group[0]) for group in groups)])
        group_of = np.searchsorted(starts[1:], rows[short], side="right")
        for number in np.unique(group_of).tolist():
            indices = short[group_of == number]
            numbers = rows[indices] - starts[number]
            parts = zip(*(file.read(numbers) for file in groups[number]), strict=True)
            for index, of_sample in zip(indices.tolist(), parts, strict=True):
                lines[index] = of_sample
        return lines


def open_text(
    paths: Sequence[Path],
    fields: Sequence[str] | None,
    scratch: Path,
    *,
    parallel: bool = False,
    columns: RowColumns | None = None,
    messages: bool = False,
    shuffled: bool = False,
    allow_loss: Fraction | None = None,
) -> TextListing:
    """List the samples of text files, which are unpacked on the disk of ``scratch`` when they are read."""
    _check_files(paths, parallel)
    wanted = columns or RowColumns()
    copies = Copies(scratch, shuffled=shuffled)
    read = (*(fields or ("text",)), *wanted.names, *(CHAT_VALUES if messages else ()))
    found = [_open_or_error(path, copies, read) for path in paths]
    files = tuple(file for file in found if isinstance(file, LineFile))
    damaged = [error for error in found if isinstance(error, SourceError)]
    several = len(paths) if files and not parallel else 0
    remedy = "Or leave them out, up to this share of the files: allow_loss={share:g}."
    skipped = check_damage(damaged, several, allow_loss if several else None, remedy)
    paths = [file.path for file in files]
    json_lines = _hold_json_lines(files, parallel)
    if fields is None:
        fields = _default_fields(paths, json_lines, parallel)
    names = list_of_names("fields", fields)
    _check_fields(names, paths, json_lines, parallel)
    wanted.check(names, json_lines)
    if messages and not json_lines:
        raise ConfigError("messages are values of objects, and files of lines have texts alone")
    _check_lines(files, parallel)
    for file in files if json_lines else ():
        _check_first(file, names, wanted.names, messages)
    root, file_names = paths[0].parent, tuple(path.name for path in paths)
    if len(set(file_names)) < len(paths):  # files of one name lie in different folders
        root = Path(os.path.commonpath([path.absolute().parent for path in paths]))
        file_names = tuple(path.absolute().relative_to(root).as_posix() for path in paths)
    counts = tuple(map(len, files[:1] if parallel else files))
    sizes = [file.sizes for file in files]
    return TextListing(
        root=root,
        keys=LineKeys(file_names[: len(counts)], counts),
        sizes=np.sum(sizes, axis=0) if parallel else np.concatenate(sizes),
        modified=np.broadcast_to(np.int64(max(modified_ns(path.stat()) for path in paths)), sum(counts)),
        labels=None,
        classes=(),
        files=files,
        file_names=file_names,
        skipped=tuple(skipped),
        format=LineFormat(names, json_lines, messages),
        parallel=parallel,
    )


def _open_or_error(path: Path, copies: Copies, columns: Sequence[str]) -> LineFile | SourceError:
    try:
        return open_lines(path, copies, columns)
    except SourceError as error:  # one error names all files that cannot be used
        return error


_CHUNK = 4096  # lines that are read at once
_FILLED = {"int64": 0, "double": np.nan, "large_string": ""}


def read_row_columns(listing: TextListing, wanted: RowColumns) -> TextListing:
    """Return the listing with labels, classes and columns; a sample without a label is left out."""
    if not wanted.names:
        return listing
    path = listing.files[0].path
    values = EntryColumns(cells=all(file.has_cells for file in listing.files), path=path)
    left_out: dict[int, Skip] = {}
    rows = np.fromiter(map(int, values.gather(_entries(listing, wanted, left_out))), np.int64)
    if not len(rows):
        raise SourceError(f"no sample has a label in {wanted.label!r}", path=path)
    everything = np.arange(len(rows))
    columns = {name: _spread(array, rows, len(listing)) for name, array in values.others(everything).items()}
    extended = replace(listing, columns={**listing.columns, **columns}, left_out=left_out)
    if wanted.label is None:
        return extended
    try:
        labels, classes = values.labels(everything)
    except ValueError as error:
        raise ConfigError(f"label {wanted.label.strip()!r}: {error}", path=path) from error
    extended = replace(extended, labels=labels, classes=classes)
    if wanted.classes is not None:
        extended = cast("TextListing", number_classes(extended, tuple(wanted.classes), path))
    extended = replace(extended, labels=_spread(extended.labels, rows, len(listing)))
    column = f"Leave out samples without a class, or read the numbers as a column: columns={wanted.label!r}."
    return cast("TextListing", check_labels(extended, column, "write one of them everywhere to join them"))


def _entries(listing: TextListing, wanted: RowColumns, left_out: dict[int, Skip]) -> Iterator[dict[str, Any]]:
    """Yield the values of each sample that has a label; its path is its row."""
    for start in range(0, len(listing), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(listing)))
        for row, document in zip(rows.tolist(), listing.documents(rows), strict=True):
            if document is None:
                continue  # the conversion skips it
            label = "0" if wanted.label is None else field_of(document, wanted.label)
            if label is None or label == "" or isinstance(label, (dict, list)):
                left_out[row] = Skip(listing.keys[row].as_py(), f"no label in {wanted.label!r}")
                continue
            if isinstance(label, bool):
                label = str(label)
            columns = {name: field_of(document, name) for name in wanted.columns}
            yield {**columns, "path": str(row), "label": label}


def _spread(array: pa.Array, rows: Any, size: int) -> pa.Array:
    """Return (size,) values with ``array`` at ``rows``; the conversion skips the samples at other rows."""
    if len(rows) == size:
        return array
    indices = np.full(size, len(rows), np.int64)
    indices[rows] = np.arange(len(rows))
    filled = pa.concat_arrays([array, pa.array([_FILLED[str(array.type)]], array.type)])
    return filled.take(pa.array(indices))


_BUFFER = 1 << 20
_NAME = "the texts that were written"


class TextSpool:
    """Texts of a program, kept in a file on the disk of ``scratch`` until they become a listing.

    The shares of splits are known only after the last text. The file has no name: the kernel removes it even
    if this process is killed. Each field is a text in every sample; with ``messages``, the only field has
    messages of chats.
    """

    def __init__(self, fields: Sequence[str], scratch: Path, *, messages: bool = False) -> None:
        self.fields = tuple(fields)
        self._messages = messages
        self._file = tempfile.TemporaryFile(dir=scratch, buffering=_BUFFER)  # noqa: SIM115 - close() closes it
        self._starts = array("q", [0])
        self._digest = hashlib.blake2b(digest_size=16)
        self._keys = Strings()
        self._types: dict[str, ColumnType] | None = None
        self._values: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(
        self,
        key: str,
        texts: Mapping[str, Any],
        values: Mapping[str, Any],
        further: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a sample: a text for each field, values of columns, and more for :func:`read_row_columns`."""
        types = self._column_types(values, key)
        stored = {name: store_value(name, values[name], column, key) for name, column in types.items()}
        document = {**(further or {}), **{name: texts.get(name) for name in self.fields}}
        line = json.dumps(document, default=_plain).encode()
        self._file.write(line + b"\n")
        self._starts.append(self._starts[-1] + len(line) + 1)
        self._digest.update(line + b"\n" + key.encode(errors="backslashreplace") + b"\0")
        self._keys.add(key.encode(errors="backslashreplace"))
        self._types = types
        for name, value in stored.items():
            self._values.setdefault(name, []).append(value)

    def _column_types(self, values: Mapping[str, Any], key: str) -> dict[str, ColumnType]:
        types = types_of(values, key) if self._types is None else self._types
        if values.keys() != types.keys():
            names = ", ".join(map(repr, sorted(values.keys() ^ types.keys())))
            raise ConfigError(f"the sample and the first one do not both have {names}", key=key)
        if arrays := [name for name, column in types.items() if column.sides]:
            raise ConfigError(
                f"column {arrays[0]!r} holds an array, and columns of text are numbers and texts", key=key
            )
        return types

    def check(self, key: str, texts: Mapping[str, Any]) -> None:
        """Raise ConfigError unless each field has a text."""
        for name in () if self._messages else self.fields:
            if not isinstance(texts.get(name), str):
                raise ConfigError(
                    f"the sample has no text in the field {name!r}",
                    key=key,
                    hint=f"Every sample has the fields {some_of(self.fields)}: name them with fields.",
                )

    def listing(self) -> TextListing:
        """The samples so far, as a source of text; nothing can be added while it is used."""
        if not len(self):
            raise SourceError("no text was written")
        self._file.flush()
        status = os.fstat(self._file.fileno())
        starts = np.frombuffer(self._starts, np.int64)
        types = self._types or {}
        columns = {name: number_column(self._values[name], column) for name, column in types.items()}
        for name in sorted(columns):
            self._digest.update(b"".join(bytes(part) for part in columns[name].buffers() if part is not None))
        digest = self._digest.hexdigest()
        file = LineFile(Path(_NAME), starts, digest, lambda _: nullcontext((self._file.fileno(), 0)))
        return TextListing(
            root=Path(_NAME),
            keys=self._keys.to_arrow(),
            sizes=file.sizes,
            modified=np.broadcast_to(np.int64(modified_ns(status)), len(self)),
            labels=None,
            classes=(),
            columns=columns,
            files=(file,),
            file_names=(_NAME,),
            format=LineFormat(self.fields, True, self._messages),
        )

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()


def _plain(value: Any) -> Any:
    """A value of NumPy as one of Python; of any other type its text."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)


def spool_items(
    items: Iterable[Any],
    fields: Sequence[str] | None,
    scratch: Path,
    columns: RowColumns,
    *,
    messages: bool = False,
) -> TextSpool:
    """Keep the texts of an iterable on the disk of ``scratch``; the caller closes the spool."""
    # Items are texts, with the field "tokens", or mappings, by default with the field "text". The values of
    # ``columns`` are kept, too. A missing text is skipped as in a file; errors of the iterable are its own.
    spool: TextSpool | None = None
    empty = 0  # before the first item
    with ExitStack() as undo:
        for number, item in enumerate(items):
            key, is_mapping = f"{number:08d}", isinstance(item, Mapping)
            if spool is None and item is None:
                empty += 1
                continue
            if not (is_mapping or item is None or isinstance(item, str)):
                raise ConfigError(f"an item must be a text or a dict, found {type(item).__name__}", key=key)
            with os_errors(scratch):
                if is_first := spool is None:
                    names = fields or (("text",) if is_mapping else ("tokens",))
                    spool = undo.enter_context(closing(TextSpool(names, scratch, messages=messages)))
                    _check_item(item, key, spool.fields, columns)
                    for before in range(empty):
                        spool.add(f"{before:08d}", {}, {})
                values = item if is_mapping else {spool.fields[0]: item}
                texts = {name: field_of(values, name) for name in spool.fields}
                if is_first and not set(spool.fields) <= names_in(values).keys():
                    spool.check(key, texts)  # it is probably misspelt; later ones are skipped
                further = (*columns.names, *(name for name in CHAT_VALUES if messages and name in values))
                spool.add(key, texts, {}, {name: field_of(values, name) for name in further})
        undo.pop_all()
    return TextSpool(fields or ("text",), scratch) if spool is None else spool


def _check_item(item: Any, key: str, fields: tuple[str, ...], columns: RowColumns) -> None:
    is_mapping = isinstance(item, Mapping)
    columns.check(fields, json_lines=is_mapping)
    if not is_mapping and len(fields) > 1:
        raise ConfigError(
            f"an item is a {type(item).__name__}, and there are {len(fields)} fields",
            key=key,
            hint="Give dicts with the fields.",
        )
    found = names_in(item) if is_mapping else {}
    if missing := [name for name in columns.names if name not in found]:
        raise ConfigError(
            f"the first item has no value {missing[0]!r}",
            key=key,
            hint=f"Choose label and columns from: {some_of(found)}.",
        )
