"""Tokenizers, which turn text into token ids: words, bytes, or a Hugging Face tokenizers file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.errors import ConfigError, DatasetError, SourceError, optional_import

from ..dataset.manifest import TOKENIZER_NAME, Manifest
from ..threads import thread_map

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


class SpecialTokens(NamedTuple):
    """Numbers of special tokens before and after the tokens of a text: 1 and 1 for [CLS] and [SEP]."""

    opening: int
    closing: int


NO_SPECIAL_TOKENS = SpecialTokens(0, 0)


def count_special_tokens(tokenizer: bytes) -> SpecialTokens:
    """The special tokens of a single sequence, from the content of a tokenizers JSON."""
    try:
        return _count_special_tokens(json.loads(tokenizer)["post_processor"])
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise DatasetError(
            f"tokenizer.json cannot be read: {error!r}", hint="convert the text again"
        ) from error


def _count_special_tokens(processor: Any) -> SpecialTokens:
    if processor is None:
        return NO_SPECIAL_TOKENS
    kind = processor["type"]
    if kind == "Sequence":
        each = [_count_special_tokens(part) for part in processor["processors"]]
        return SpecialTokens(sum(part.opening for part in each), sum(part.closing for part in each))
    if kind in ("BertProcessing", "RobertaProcessing"):
        return SpecialTokens(1, 1)
    if kind != "TemplateProcessing":
        return NO_SPECIAL_TOKENS
    pieces = processor["single"]
    ids = processor["special_tokens"]
    sizes = [
        len(ids[piece["SpecialToken"]["id"]]["ids"]) if "SpecialToken" in piece else 0 for piece in pieces
    ]
    sequence = next(index for index, piece in enumerate(pieces) if "Sequence" in piece)
    return SpecialTokens(sum(sizes[:sequence]), sum(sizes[sequence:]))


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


Decode = Callable[[Sequence[int]], str]

_OF_BYTES = {256: "[PAD]", 257: "[BOS]", 258: "[EOS]"}


def make_decoder(options: Mapping[str, Any], file: bytes | None) -> Decode:
    """Return a function that makes the text of token ids, special tokens included.

    ``options`` are those of the dataset, and ``file`` its ``tokenizer.json``; None for bytes.
    """
    if file is None:
        return _decode_bytes
    model = json.loads(file)["model"]
    if options.get("tokenizer") == "whitespace" and model.get("type") == "WordLevel":
        words = {number: word for word, number in model["vocab"].items()}
        return lambda ids: " ".join(words.get(number, f"[{number}]") for number in ids)
    with optional_import("the texts of these token ids need the package tokenizers", "tokenizers"):
        import tokenizers
    tokenizer = tokenizers.Tokenizer.from_buffer(file)
    return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False))


def _decode_bytes(ids: Sequence[int]) -> str:
    data = b"".join(bytes([token]) if token < 256 else _OF_BYTES.get(token, "").encode() for token in ids)
    return data.decode(errors="replace")


def read_word_parts(tokenizer: bytes) -> tuple[tuple[int, ...], npt.NDArray[np.bool_] | None]:
    """Ids of special tokens; and (V,) bool, the ids that continue the word before them.

    A piece of WordPiece continues a word if it begins with "##". With Metaspace and ByteLevel, as of
    SentencePiece, Llama and GPT-2, it does unless it begins with the sign for a space; punctuation then
    belongs to the word before it. A vocabulary of words has no parts. The second is None for other
    tokenizers.
    """
    try:
        document = json.loads(tokenizer)
        special = tuple(token["id"] for token in document["added_tokens"] if token["special"])
        return special, _continuations(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(
            f"tokenizer.json cannot be read: {error!r}", hint="convert the text again"
        ) from error


def _continuations(document: Any) -> npt.NDArray[np.bool_] | None:
    model = document["model"]
    vocabulary = model["vocab"]
    if model["type"] == "Unigram":
        vocabulary = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    table = np.zeros(max(vocabulary.values(), default=-1) + 1, np.bool_)
    if model["type"] == "WordLevel":
        return table
    if model["type"] == "WordPiece":
        prefix = model["continuing_subword_prefix"]
        table[[number for piece, number in vocabulary.items() if piece.startswith(prefix)]] = True
        return table
    signs = [sign for part in _parts(document["pre_tokenizer"]) if (sign := _sign_of_space(part))]
    if not signs:
        return None
    table[[number for piece, number in vocabulary.items() if not piece.startswith(signs[0])]] = True
    return table


def _parts(component: Any) -> Iterator[Any]:
    if component is not None and component["type"] == "Sequence":
        for part in component["pretokenizers"]:
            yield from _parts(part)
    elif component is not None:
        yield component


def _sign_of_space(pre_tokenizer: Any) -> str | None:
    if pre_tokenizer["type"] == "ByteLevel":
        return "\u0120"  # the letter that stands for the byte of a space
    return pre_tokenizer["replacement"] if pre_tokenizer["type"] == "Metaspace" else None
