"""Names of the index columns about token ids, which conversions write and loaders read."""

from __future__ import annotations

import json
from contextlib import suppress
from textwrap import shorten
from typing import Any

from .containers.image_record import JsonText

_MOST_SHOWN = 200  # characters of a value in a message

CAPTION = "caption"
"""Name of the column of batches with captions, and of the column of texts where a source names a part."""

IDS_COLUMN, LENGTHS_COLUMN = "caption_ids", "caption_lengths"
"""Columns of the index: the token ids of all captions of a sample, end to end, and the number of each."""

CAPTION_COLUMNS = frozenset((IDS_COLUMN, LENGTHS_COLUMN))


def length_column(field: str) -> str:
    """Name of the index column with the number of tokens of a field."""
    return f"{field}_length"


def trained_column(field: str) -> str:
    """Name of the index column with the runs of a field's trained tokens: first token and end of each."""
    return f"{field}_trained"


def join_captions(value: Any) -> str | None:
    """The text of one caption or a list, for :func:`split_captions`; ValueError with any other value."""
    if isinstance(value, JsonText):
        value = json.loads(value)
    if value is None or (isinstance(value, str) and not value.startswith("[")):
        return value
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, (str, type(None))) for text in texts):
        raise ValueError(shorten(repr(value), _MOST_SHOWN))
    return json.dumps([text for text in texts if text is not None], ensure_ascii=False)


def split_captions(text: str) -> list[str]:
    """The captions in a text: those of a JSON list of texts, or the text itself; empty ones are left out."""
    parsed: Any = None
    if text.startswith("["):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(text)
    is_list = isinstance(parsed, list) and all(isinstance(caption, str) for caption in parsed)
    return [caption for caption in (parsed if is_list else [text]) if caption.strip()]
