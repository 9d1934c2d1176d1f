"""A tokenizer with a token before or after each text, such as the one that ends a document."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stoker.errors import ConfigError, SourceError

from .special_tokens import count_special_tokens
from .tokenizers import Ids, Lengths, Tokenizer

_TEXTS = {
    "bos": ("[BOS]", "<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>"),
    "eos": ("[EOS]", "</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
}


@dataclass(frozen=True)
class FramedTokenizer:
    """A tokenizer that puts a token before or after each text that has tokens."""

    inner: Tokenizer  # The tokenizer
    bos: int | None  # Token id before each text; None for none
    eos: int | None  # Token id after each text; None for none

    @property
    def name(self) -> str:
        """See :class:`Tokenizer`."""
        return self.inner.name

    @property
    def vocab_size(self) -> int:
        """See :class:`Tokenizer`."""
        return self.inner.vocab_size

    @property
    def pad_id(self) -> int:
        """See :class:`Tokenizer`."""
        return self.inner.pad_id

    @property
    def file(self) -> bytes | None:
        """See :class:`Tokenizer`; the file of the tokenizer inside, which adds no such tokens."""
        return self.inner.file

    def id_of(self, token: str) -> int | None:
        """See :class:`Tokenizer`."""
        return self.inner.id_of(token)

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """See :class:`Tokenizer`."""
        ids, lengths = self.inner.encode(texts)
        at, tokens = self._insertions(lengths)
        return np.insert(ids, at, tokens), self._longer(lengths)

    def encode_with_offsets(self, texts: Sequence[str], *, special: bool) -> tuple[Ids, Lengths, Ids, Ids]:
        """See :class:`Tokenizer`."""
        ids, lengths, starts, ends = self.inner.encode_with_offsets(texts, special=special)
        if not special:
            return ids, lengths, starts, ends
        at, tokens = self._insertions(lengths)
        return (
            np.insert(ids, at, tokens),
            self._longer(lengths),
            np.insert(starts, at, 0),
            np.insert(ends, at, 0),
        )

    def _longer(self, lengths: Lengths) -> Lengths:
        more = (self.bos is not None) + (self.eos is not None)
        return lengths + np.where(lengths > 0, more, 0)

    def _insertions(self, lengths: Lengths) -> tuple[Any, Any]:
        """Return the indices before which tokens are inserted, ascending, and these tokens."""
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        has_tokens = lengths > 0
        begins, ends = bounds[:-1][has_tokens], bounds[1:][has_tokens]
        # The end of a text and the beginning of the next one have one index: the end comes first.
        added = [(at, token) for at, token in ((ends, self.eos), (begins, self.bos)) if token is not None]
        indices = np.concatenate([at for at, _ in added])
        tokens = np.concatenate([np.full(len(at), token, np.int32) for at, token in added])
        order = np.argsort(indices, kind="stable")
        return indices[order], tokens[order]


def add_frame(tokenizer: Tokenizer, path: str | os.PathLike[str], *, bos: bool, eos: bool) -> Tokenizer:
    """Return a tokenizer that puts its own first and last token around each text.

    ``path`` is its file, beside which ``tokenizer_config.json`` names the two tokens, or its name.
    """
    if not bos and not eos:
        return tokenizer
    if tokenizer.file is not None:
        special = count_special_tokens(tokenizer.file)
        if (bos and special.opening) or (eos and special.closing):
            option = "bos" if bos and special.opening else "eos"
            raise ConfigError(
                f"the tokenizer puts special tokens there itself, and {option} would add another",
                path=path,
                hint=f"leave out {option}",
            )
    settings = tokenizer_settings(path)
    ids = {
        name: _find_id(tokenizer, name, settings.get(f"{name}_token"), path) if wanted else None
        for name, wanted in (("bos", bos), ("eos", eos))
    }
    return FramedTokenizer(tokenizer, **ids)


def tokenizer_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in ``tokenizer_config.json`` beside a tokenizer's file; empty if there are none."""
    config = Path(path).parent / "tokenizer_config.json"
    if not Path(path).is_file() or not config.is_file():
        return {}
    try:
        document = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(f"the tokenizer's settings cannot be read: {error}", path=config) from error
    return document if isinstance(document, dict) else {}


def token_text(value: Any) -> str | None:
    """The text of a special token, which settings have as a text or as an object."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


def _find_id(tokenizer: Tokenizer, name: str, setting: Any, path: str | os.PathLike[str]) -> int:
    token = token_text(setting)
    for text in _TEXTS[name] if token is None else [token]:
        if (token_id := tokenizer.id_of(text)) is not None:
            return token_id
    raise ConfigError(
        f"the tokenizer has no token for {name}",
        path=path,
        hint=f'name it as "{name}_token" in tokenizer_config.json beside the file, or leave out {name}',
    )
