"""The choice of a tokenizer: the arguments of a conversion, and the tokenizer that follows from them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from stoker import _native
from stoker.errors import ConfigError, optional_import

from ..dataset.manifest import TOKENIZER_NAME, Manifest
from ..threads import thread_map
from .framed import add_frame
from .tokenizers import SPECIAL_TOKENS, ByteTokenizer, FileTokenizer, Tokenizer, WhitespaceTokenizer

_COUNTED_LINES = 1024  # in one task
_TRAINED = ("whitespace", "bpe")


class SourceTexts(NamedTuple):
    """The texts of a source, for a vocabulary that may be made from them."""

    samples: int  # Number of samples
    # Returns all texts of some samples, which are given by their rows; threads call it
    read: Callable[[range], list[str]]

    def chunks(self) -> Iterator[range]:
        """The rows of the samples in parts that one call reads."""
        for start in range(0, self.samples, _COUNTED_LINES):
            yield range(start, min(start + _COUNTED_LINES, self.samples))


@dataclass(frozen=True)
class TokenizerChoice:
    """The arguments of a conversion that decide its tokenizer; see :func:`stoker.convert_text`."""

    tokenizer: str | os.PathLike[str] = "whitespace"
    vocabulary: str | os.PathLike[str] | None = None
    min_count: int | None = None
    max_size: int | None = None
    bos: bool = False
    eos: bool = False

    def __post_init__(self) -> None:
        if self.vocabulary is not None and self.tokenizer != "whitespace":
            raise ConfigError(
                "tokenizer and vocabulary both say what makes the tokens", hint="leave out one of them"
            )
        for name in ("min_count", "max_size"):
            value = getattr(self, name)
            if value is None:
                continue
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} must be an integer from 1, not {value!r}")
            if self.vocabulary is not None or self.tokenizer not in _TRAINED:
                raise ConfigError(
                    f"{name} limits a vocabulary that is made of the texts, and this tokenizer has one",
                    hint=f"give it with tokenizer={' or '.join(_TRAINED)}",
                )


def tokenizer_options(tokenizer: Tokenizer, choice: TokenizerChoice) -> dict[str, Any]:
    """The options of a dataset about the tokenizer that made its token ids."""
    return {
        "tokenizer": tokenizer.name,
        "tokenizer_digest": "" if tokenizer.file is None else hashlib.sha256(tokenizer.file).hexdigest(),
        "vocab_size": tokenizer.vocab_size,
        "pad_id": tokenizer.pad_id,
        "dtype": "uint16" if tokenizer.vocab_size <= 1 << 16 else "int32",
        "bos": choice.bos,
        "eos": choice.eos,
    }


def make_tokenizer(choice: TokenizerChoice, texts: SourceTexts, threads: int) -> Tokenizer:
    """Return the tokenizer of a conversion; its vocabulary may be made of the texts."""
    path = choice.tokenizer
    if choice.vocabulary is not None:
        path = Path(choice.vocabulary) / TOKENIZER_NAME
        tokenizer = _tokenizer_of(Path(choice.vocabulary))
    elif path == "bytes":
        tokenizer = ByteTokenizer()
    elif path == "whitespace":
        tokenizer = _count_vocabulary(choice, texts, threads)
    elif path == "bpe":
        every_text = (text for chunk in texts.chunks() for text in texts.read(chunk))
        tokenizer = _train_bpe(every_text, choice.max_size or 30_000, choice.min_count or 2)
    else:
        tokenizer = FileTokenizer(path)
    return add_frame(tokenizer, path, bos=choice.bos, eos=choice.eos)


def _tokenizer_of(folder: Path) -> Tokenizer:
    """The tokenizer of a dataset."""
    manifest = Manifest.load(folder)
    if not manifest.options.get("tokenizer"):
        raise ConfigError(
            f"vocabulary must be a dataset of text, and this one holds {manifest.sample_type}s", path=folder
        )
    if not manifest.options.get("tokenizer_digest"):
        return ByteTokenizer()
    file = FileTokenizer(folder / TOKENIZER_NAME, str(manifest.options.get("tokenizer") or TOKENIZER_NAME))
    document: Any = json.loads(file.file)
    model = document["model"]
    if manifest.options.get("tokenizer") != "whitespace" or model.get("type") != "WordLevel":
        return file
    words = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return WhitespaceTokenizer(tuple(words[len(SPECIAL_TOKENS) :]))


def _count_vocabulary(choice: TokenizerChoice, texts: SourceTexts, threads: int) -> WhitespaceTokenizer:
    counts = _native.WordCounts()
    for _ in thread_map(partial(_count, counts, texts), texts.chunks(), "count", threads, 2 * threads):
        pass
    return WhitespaceTokenizer.build(counts, choice.min_count or 1, choice.max_size)


def _count(counts: _native.WordCounts, texts: SourceTexts, chunk: range) -> None:
    counts.add(texts.read(chunk))


def _train_bpe(texts: Iterator[str], size: int, min_count: int) -> FileTokenizer:
    """Return a tokenizer with pieces of words from the texts; it has every byte, so no text is unknown."""
    with optional_import("training subwords needs the package tokenizers", "tokenizers"):
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers, trainers
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return FileTokenizer.from_content(tokenizer.to_str().encode(), "bpe")
