"""Tokenizers, which turn text into token ids: words, bytes, or a Hugging Face tokenizers file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.errors import ConfigError, SourceError, optional_import

Ids = npt.NDArray[np.int32]
Lengths = npt.NDArray[np.int64]

SPECIAL_TOKENS = ("[UNK]", "[PAD]", "[BOS]", "[EOS]")
"""Ids 0 to 3 of :class:`WhitespaceTokenizer`. A conversion writes none of them: they are for the model."""

_MOST = 1 << 62  # words, or occurrences of a word: no text has as many


class Tokenizer(Protocol):
    """A tokenizer of a conversion; several threads use it at once."""

    @property
    def name(self) -> str:
        """Its name in the options of the dataset."""

    @property
    def vocab_size(self) -> int:
        """All token ids are less than this."""

    @property
    def pad_id(self) -> int:
        """Token id for padding."""

    @property
    def file(self) -> bytes | None:
        """A Hugging Face tokenizers JSON with the same result; None if there is none."""

    def id_of(self, token: str) -> int | None:
        """Id of a special token; None if there is no such token."""

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """Token ids of N texts, concatenated, (T,) int32, and the number of each text, (N,) int64."""

    def encode_with_offsets(self, texts: Sequence[str], *, special: bool) -> tuple[Ids, Lengths, Ids, Ids]:
        """As :meth:`encode`, with the first character and the end of each token in its text."""


@dataclass(frozen=True)
class ByteTokenizer:
    """UTF-8 bytes are the ids 0 to 255; 256, 257 and 258 are free for padding, start and end of a text."""

    name: str = "bytes"
    vocab_size: int = 259
    pad_id: int = 256
    file: bytes | None = None

    def id_of(self, token: str) -> int | None:
        """See :class:`Tokenizer`; the special tokens are called [PAD], [BOS] and [EOS]."""
        return {"[PAD]": 256, "[BOS]": 257, "[EOS]": 258}.get(token)

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """See :class:`Tokenizer`."""
        encoded = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.frombuffer(b"".join(encoded), np.uint8).astype(np.int32), lengths

    def encode_with_offsets(self, texts: Sequence[str], *, special: bool) -> tuple[Ids, Lengths, Ids, Ids]:
        """See :class:`Tokenizer`; a character of several bytes has several tokens."""
        ids, lengths = self.encode(texts)
        characters = np.cumsum((ids & 0xC0) != 0x80)  # all bytes but the later ones of a character
        before = np.cumsum([0, *map(len, texts)])[:-1]
        ends = (characters - np.repeat(before, lengths)).astype(np.int32)
        return ids, lengths, ends - 1, ends


@dataclass(frozen=True)
class WhitespaceTokenizer:
    """Words, as ``str.split`` separates them by whitespace."""

    words: tuple[str, ...]  # Words with the ids from 4 (see :data:`SPECIAL_TOKENS`), most frequent first
    name: str = "whitespace"
    pad_id: int = SPECIAL_TOKENS.index("[PAD]")

    @classmethod
    def build(
        cls, counts: _native.WordCounts, min_count: int = 1, max_size: int | None = None
    ) -> WhitespaceTokenizer:
        """The tokenizer of the ``max_size`` most frequent words that occur ``min_count`` times or more."""
        most = _MOST if max_size is None else min(max_size, _MOST)
        frequent = counts.frequent(min(min_count, _MOST), most + len(SPECIAL_TOKENS))
        return cls(tuple(word for word in frequent if word not in SPECIAL_TOKENS)[:most])

    @property
    def vocab_size(self) -> int:
        """See :class:`Tokenizer`."""
        return len(SPECIAL_TOKENS) + len(self.words)

    @cached_property
    def vocab(self) -> dict[str, int]:
        """Id of every word and of every special token."""
        return {word: number for number, word in enumerate((*SPECIAL_TOKENS, *self.words))}

    @property
    def file(self) -> bytes:
        """The vocabulary as a WordLevel model, which ``tokenizers.Tokenizer.from_file`` reads."""
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        document = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {"id": number, "content": token, **flags, "special": True}
                for number, token in enumerate(SPECIAL_TOKENS)
            ],
            "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": self.vocab, "unk_token": SPECIAL_TOKENS[0]},
        }
        return json.dumps(document, ensure_ascii=False, indent=0).encode()

    def id_of(self, token: str) -> int | None:
        """See :class:`Tokenizer`."""
        return SPECIAL_TOKENS.index(token) if token in SPECIAL_TOKENS else None

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """See :class:`Tokenizer`; an unknown word becomes [UNK]."""
        ids, lengths, _, _ = self._ids.encode(texts)
        return ids, lengths

    def encode_with_offsets(self, texts: Sequence[str], *, special: bool) -> tuple[Ids, Lengths, Ids, Ids]:
        """See :class:`Tokenizer`."""
        return self._ids.encode(texts, with_offsets=True)

    def __reduce__(self) -> tuple[Any, ...]:
        # Each process makes its own table of ids.
        return WhitespaceTokenizer, (self.words, self.name, self.pad_id)

    @cached_property
    def _ids(self) -> _native.WordIds:
        return _native.WordIds((*SPECIAL_TOKENS, *self.words))


class FileTokenizer:
    """A Hugging Face tokenizers JSON. It adds its special tokens, but neither truncates nor pads."""

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"tokenizer must be whitespace, bytes, bpe, or a tokenizers JSON; the file cannot be read: "
                f"{error.strerror}",
                path=path,
            ) from error
        self._load(content, Path(path).name if name is None else name, path)

    @classmethod
    def from_content(cls, content: bytes, name: str) -> FileTokenizer:
        """The tokenizer of a tokenizers JSON that is no file yet."""
        tokenizer = cls.__new__(cls)
        tokenizer._load(content, name, name)
        return tokenizer

    def _load(self, content: bytes, name: str, path: str | os.PathLike[str]) -> None:
        with optional_import("a tokenizer from a file needs the package tokenizers", "tokenizers"):
            import tokenizers
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_buffer(content)
        except Exception as error:  # the package raises plain Exception
            raise SourceError(f"the file is no tokenizers JSON: {error}", path=path) from error
        self.file = content
        self.name = name
        self.pad_id = self._find_pad_id()
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.vocab_size = max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    def id_of(self, token: str) -> int | None:
        """See :class:`Tokenizer`."""
        number: int | None = self._tokenizer.token_to_id(token)
        return number

    def _find_pad_id(self) -> int:
        padding = self._tokenizer.padding
        if padding is not None:
            return int(padding["pad_id"])
        ids = [self._tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>", "<|endoftext|>")]
        return next((number for number in ids if number is not None), 0)

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """See :class:`Tokenizer`."""
        encoded = [one.ids for one in self._tokenizer.encode_batch_fast(list(texts))]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        ids = np.fromiter((token for one in encoded for token in one), np.int32, int(lengths.sum()))
        return ids, lengths

    def encode_with_offsets(self, texts: Sequence[str], *, special: bool) -> tuple[Ids, Lengths, Ids, Ids]:
        """See :class:`Tokenizer`."""
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=special)
        lengths = np.fromiter((len(one.ids) for one in encoded), np.int64, len(encoded))
        ids = np.fromiter((token for one in encoded for token in one.ids), np.int32, int(lengths.sum()))
        offsets = np.array([span for one in encoded for span in one.offsets], np.int32).reshape(-1, 2)
        return ids, lengths, offsets[:, 0], offsets[:, 1]
