"""The content of a sample's lines: texts, or JSON objects with texts or with the messages of a chat.

The module reads no files, so that other processes can parse lines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...files import is_unicode
from ...sources.listing import Skip
from ...sources.source_reader import SkippedError


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
        """Return a text for each field, or the messages; return a skip for a sample that is left out."""
        key, lines = sample
        if isinstance(lines, Skip):
            return lines
        try:
            texts = tuple(line.decode() for line in lines)
            if not self.json_lines:
                return texts
            document = document_of(texts[0])
            return _messages_of(document, self.fields) if self.messages else _fields_of(document, self.fields)
        except UnicodeDecodeError as error:
            return Skip(key, "not UTF-8", error.reason)
        except SkippedError as skip:
            return Skip(key, *skip.args)


def document_of(line: str) -> dict[str, Any]:
    """Return the object of a line of JSON Lines."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SkippedError("not JSON", str(error)) from error
    if not isinstance(document, dict):
        raise SkippedError("not a JSON object", type(document).__name__)
    return document


def _fields_of(document: dict[str, Any], fields: Sequence[str]) -> tuple[str, ...]:
    for name in fields:
        if not isinstance(document.get(name), str):
            raise SkippedError(f"no text in field {name!r}", "")
    texts = tuple(document[name] for name in fields)
    if not is_unicode("".join(texts)):
        raise SkippedError("not Unicode", "half of a surrogate pair")
    return texts


def _messages_of(document: dict[str, Any], fields: Sequence[str]) -> tuple[list[dict[str, Any]]]:
    chat = document.get(fields[0])
    if not isinstance(chat, list) or not chat or not all(isinstance(message, dict) for message in chat):
        raise SkippedError(f"no messages in {fields[0]!r}", "")
    # Tables store null for a field that other messages have.
    messages = [{name: value for name, value in message.items() if value is not None} for message in chat]
    if any(not isinstance(message.get("role"), str) for message in messages):
        raise SkippedError(f"a message without a role in {fields[0]!r}", "")
    if not is_unicode(json.dumps(messages, ensure_ascii=False)):
        raise SkippedError("not Unicode", "half of a surrogate pair")
    return (messages,)
