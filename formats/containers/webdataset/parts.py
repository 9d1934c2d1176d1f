"""Values in the parts of a sample: numbers and texts, also inside a member with JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from stoker.errors import SourceError

from ..base import RecordPart
from ..messages.image_record import Value

_INTEGER = re.compile(r"\s*-?(0|[1-9]\d{0,18})\s*")  # 007 is a name
_JSON = ("json", "jsn")
_LONGEST = 1 << 26  # bytes of a member with a value
_NAME_ANOTHER = "name another member for this value, or leave its option out"


class SampleParts:
    """The parts of one sample; ``read`` returns the bytes of a part."""

    def __init__(self, parts: tuple[RecordPart, ...], read: Callable[[RecordPart], bytes]) -> None:
        self._parts: Mapping[str, RecordPart] = {part.name: part for part in parts}
        self._read = read
        self._document: Any = None

    def first(self, names: str) -> RecordPart | None:
        """Return the first part that has one of some suffixes, ``jpg;png``; None if none has."""
        for suffix in _suffixes(names):
            if suffix in self._parts:
                return self._parts[suffix]
        return None

    def label(self, name: str) -> int | str | None:
        """Return the class in a part: a number, or a name; None if there is none."""
        value = self.value(name)
        if isinstance(value, str):
            return int(value) if _INTEGER.fullmatch(value) else value.strip() or None
        if isinstance(value, float):
            raise SourceError(
                f"{name} is {value}, and a class is an integer or a name",
                hint="name another member for the label, or none: --label ''",
            )
        return value

    def value(self, name: str) -> Value | None:
        """Return the value in a part: the text of ``txt``, or a field of JSON, ``json:caption``."""
        suffixes, colon, field = name.partition(":")
        if colon:
            return _plain(_field(self._json(suffixes), field))
        part = self.first(suffixes)
        return None if part is None else self._text(part).rstrip("\r\n")

    def _json(self, suffixes: str) -> Any:
        if self._document is None:
            part = self.first(suffixes) or self.first(";".join(_JSON))
            try:
                self._document = {} if part is None else json.loads(self._text(part))
            except (ValueError, RecursionError) as error:
                raise SourceError(
                    f"the member .{suffixes} is not JSON: {error}", hint=_NAME_ANOTHER
                ) from error
        return self._document

    def _text(self, part: RecordPart) -> str:
        if part.kind:
            return ""
        if part.span.length > _LONGEST:
            raise SourceError(
                f"the member .{part.name} has {part.span.length} bytes, too many for a value",
                hint=_NAME_ANOTHER,
            )
        return self._read(part).decode(errors="backslashreplace")


@lru_cache(maxsize=64)
def _suffixes(names: str) -> tuple[str, ...]:
    return tuple(name.strip().lower().lstrip(".") for name in names.split(";"))


def _field(document: Any, name: str) -> Any:
    """Return a field of a JSON object, or of an object in it (``meta.label``); None if there is none."""
    if not isinstance(document, dict):
        return None
    if name in document:
        return document[name]
    first, dot, rest = name.partition(".")
    return _field(document.get(first), rest) if dot else None


def _plain(value: Any) -> Value | None:
    """Return a value of JSON as a number or as text; lists and objects stay JSON."""
    if value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, int):
        return int(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
