"""Texts that a program hands over, kept in a file without a name until they are converted.

A vocabulary and the shares of splits are known only after the last text. The kernel removes the file, even
if this process is killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stoker.errors import ConfigError, SourceError

from ..conversion.samples import ColumnType, number_column, store_value, types_of
from ..dataset.columns import Strings
from .lines import LineFile
from .listing import LineFormat, RowColumns, TextListing

_BUFFER = 1 << 20
_NAME = "the texts that were written"


class TextSpool:
    """Samples of text that grow by one at a time, in a file on the disk of ``scratch``, and become a listing.

    Each field is a text in every sample; with ``messages``, the only field has messages of chats.
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
        for name in () if self._messages else self.fields:
            if not isinstance(texts.get(name), str):
                raise ConfigError(
                    f"the sample has no text in the field {name!r}",
                    key=key,
                    hint=f"Every sample has the fields {', '.join(self.fields)}: name them with fields.",
                )
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
        file = LineFile(Path(_NAME), self._file.fileno(), starts, digest, status.st_mtime_ns)
        return TextListing(
            root=Path(_NAME),
            keys=self._keys.to_arrow(),
            sizes=file.sizes,
            modified=np.broadcast_to(np.int64(status.st_mtime_ns), len(self)),
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
    # ``columns`` are kept, too.
    spool: TextSpool | None = None
    for number, item in enumerate(items):
        key, is_mapping = f"{number:08d}", isinstance(item, Mapping)
        if spool is None:
            default = ("text",) if is_mapping else ("tokens",)
            spool = TextSpool(fields or default, scratch, messages=messages)
            columns.check(spool.fields, json_lines=is_mapping)
            if is_mapping and (missing := [name for name in columns.names if name not in item]):
                raise ConfigError(
                    f"the first item has no value {missing[0]!r}",
                    key=key,
                    hint=f"Choose label and columns from: {', '.join(map(str, item))}.",
                )
        if not is_mapping:
            if len(spool.fields) > 1:
                raise ConfigError(
                    f"an item is a {type(item).__name__}, and there are {len(spool.fields)} fields",
                    key=key,
                    hint="Give dicts with the fields.",
                )
            item = {spool.fields[0]: item}  # noqa: PLW2901 - from here on all items have one form
        spool.add(key, item, {}, {name: item.get(name) for name in columns.names})
    return TextSpool(fields or ("text",), scratch) if spool is None else spool
