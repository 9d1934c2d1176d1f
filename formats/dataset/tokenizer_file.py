"""The tokenizer's file in the folder of a dataset of text."""

from __future__ import annotations

from pathlib import Path

from stoker.errors import DatasetError

from ..files.reading import open_regular, read_at
from .manifest import TOKENIZER_NAME

__all__ = ["read_tokenizer"]


def read_tokenizer(folder: Path) -> bytes:
    """Return the content of ``tokenizer.json`` in the folder of a dataset of text.

    Raises:
        DatasetError: There is no such file, or it cannot be read.
    """
    file = folder / TOKENIZER_NAME
    try:
        with open_regular(file) as (descriptor, size):
            return read_at(descriptor, 0, size)
    except OSError as error:
        raise DatasetError(
            f"the tokenizer cannot be read: {error.strerror or error}",
            path=file,
            hint="copy the file from where the dataset was made, or convert the text again",
        ) from error
