"""Tokenizers, which turn texts into token ids: UTF-8 bytes, or a JSON file of the library ``tokenizers``.

Conversions of text and captions choose one here; loaders and previews ask about the tokenizer of a dataset.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, DatasetError, SourceError, optional_import

from .dataset.manifest import BYTE_TOKENS, MANIFEST_NAME, TOKENIZER_NAME, Manifest, tokenizer_settings
from .files import is_unicode, read_regular
from .options import check_options, option

if TYPE_CHECKING:
    from .dataset.dataset import Dataset

Ids = npt.NDArray[np.int32]
Lengths = npt.NDArray[np.int64]

_TRAINED = ("whitespace", "words", "bpe")
_PADS = ("[PAD]", "<pad>", "<|endoftext|>")
_ENDS = {
    "bos": ("[BOS]", "<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>"),
    "eos": ("[EOS]", "</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
}
_OTHER_FORMS = (
    "The package transformers makes one of a tokenizer.model of SentencePiece, or of a name of the Hugging "
    "Face Hub: AutoTokenizer.from_pretrained(NAME_OR_FOLDER).save_pretrained(NEW_FOLDER); give NEW_FOLDER."
)


def _check_tokenizer(name: str, value: Any) -> Any:
    is_path = isinstance(value, (str, os.PathLike))
    if not is_path or value in _TRAINED:
        found = repr(value) if is_path else f"a {type(value).__name__}"
        raise ConfigError(
            f"{name} must be bytes or the path of a tokenizers JSON, found {found}",
            hint="Train a tokenizer with the library tokenizers and save it as JSON: "
            "t = Tokenizer(models.WordLevel(unk_token='[UNK]')); "
            "t.pre_tokenizer = pre_tokenizers.WhitespaceSplit(); "
            "t.train(files, trainers.WordLevelTrainer(special_tokens=['[UNK]', '[PAD]'])); t.save(path)."
            if is_path
            else "Save it, and give the path: t.save(FILE) of tokenizers, or t.save_pretrained(FOLDER) of "
            "transformers.",
        )
    return value


@dataclass(frozen=True)
class TokenizerSettings:
    """What belongs to a tokenizer beside its file, and what a dataset keeps of it in one option."""

    # Texts of special tokens by the names of their roles, such as ``bos_token``; None for a role without one
    special_tokens: Mapping[str, str | None] = field(default_factory=dict)
    chat_template: str | None = None  # A Jinja program

    @classmethod
    def beside(cls, path: Path) -> TokenizerSettings:
        """The settings in the folder of a tokenizer's file, which may be a dataset."""
        folder = path.parent
        if path.name != TOKENIZER_NAME and (folder / TOKENIZER_NAME).exists():
            return cls()  # the settings are those of the other tokenizer
        if (folder / MANIFEST_NAME).is_file():
            return cls.of_dataset(Manifest.load(folder).options)
        config = _read_object(folder / "tokenizer_config.json")
        values = _read_object(folder / "special_tokens_map.json")
        values |= {name: value for name, value in config.items() if value is not None or name not in values}
        template: Any = config.get("chat_template")
        if isinstance(template, list):
            named = [one for one in template if isinstance(one, dict) and one.get("name") == "default"]
            template = named[0].get("template") if named else None
        file = folder / "chat_template.jinja"
        if file.is_file():
            template = _read_settings(file)
        tokens = {name: _token_text(value) for name, value in values.items() if name.endswith("_token")}
        special = {name: text for name, text in tokens.items() if text is not None or values[name] is None}
        return cls(special, template if isinstance(template, str) else None)

    @classmethod
    def of_dataset(cls, options: Mapping[str, Any]) -> TokenizerSettings:
        """The settings of the tokenizer of a dataset, by its options."""
        return cls(*tokenizer_settings(options))

    def to_option(self) -> str:
        """The option of a dataset; empty if nothing is known."""
        known = {name: value for name, value in vars(self).items() if value}
        return json.dumps(known, ensure_ascii=False) if known else ""


@dataclass(frozen=True)
class TokenizerChoice:
    """The tokenizer that a conversion uses."""

    tokenizer: str | os.PathLike[str] | None = option(
        None,
        "Tokenizer: bytes (of UTF-8), or the path of a tokenizers JSON or of its folder, which the dataset "
        "keeps.",
        "Tokens",
        check=_check_tokenizer,
    )
    vocabulary: str | os.PathLike[str] | None = option(
        None, "Folder of another dataset, whose tokenizer to use.", "Tokens"
    )
    bos: bool = option(False, "Begin each sequence with the tokenizer's special token for it.", "Tokens")
    eos: bool = option(False, "End each sequence with the tokenizer's special token for it.", "Tokens")

    def __post_init__(self) -> None:
        check_options(self)
        if self.vocabulary is not None and self.tokenizer is not None:
            raise ConfigError(
                "tokenizer and vocabulary both say what makes the tokens", hint="Leave out one of them."
            )

    def make(self) -> Tokenizer:
        """Return the tokenizer."""
        if self.vocabulary is not None:
            tokenizer = _tokenizer_of(Path(self.vocabulary))
        elif self.tokenizer is None:
            raise ConfigError(
                "token ids need a tokenizer",
                hint="Give tokenizer='bytes', the path of a tokenizers JSON, or vocabulary=FOLDER of a "
                "dataset that has one.",
            )
        else:
            tokenizer = ByteTokenizer() if self.tokenizer == "bytes" else FileTokenizer(self.tokenizer)
        tokenizer.add_ends(bos=self.bos, eos=self.eos)
        return tokenizer


class Tokenizer(ABC):
    """A tokenizer of a conversion; several threads use it at once."""

    name: str  # Its name in the options of a dataset
    vocab_size: int  # All token ids are less than this
    pad_id: int  # Token id for padding
    file: bytes | None = None  # Its JSON; None if it has none
    path: Path | None = None  # Path of the JSON, for errors
    settings = TokenizerSettings()
    bos: int | None = None  # Token id before each text that has tokens
    eos: int | None = None  # Token id after each text that has tokens

    @abstractmethod
    def id_of(self, token: str) -> int | None:
        """Id of a special token; None if there is no such token."""

    @abstractmethod
    def _tokens(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """Token ids without ``bos`` and ``eos``."""

    @abstractmethod
    def _tokens_with_offsets(self, texts: Sequence[str], special: bool) -> tuple[Ids, Lengths, Ids, Ids]:
        """Token ids without ``bos`` and ``eos``, and the first character and the end of each."""

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """Token ids of N texts, end to end, (T,) int32, and the number of each text, (N,) int64."""
        ids, lengths = self._tokens(texts)
        if self.bos is None and self.eos is None:
            return ids, lengths
        at, tokens, more = self._insertions(lengths)
        return np.insert(ids, at, tokens), lengths + more

    def encode_with_offsets(self, texts: Sequence[str], *, special: bool) -> tuple[Ids, Lengths, Ids, Ids]:
        """As :meth:`encode`, with the first character and the end of each token in its text."""
        ids, lengths, starts, ends = self._tokens_with_offsets(texts, special)
        if not special:
            return ids, lengths, starts, ends
        at, tokens, more = self._insertions(lengths)
        return np.insert(ids, at, tokens), lengths + more, np.insert(starts, at, 0), np.insert(ends, at, 0)

    def _insertions(self, lengths: Lengths) -> tuple[Any, Any, Any]:
        """The indices before which tokens are inserted, ascending; the tokens; how many each text gets."""
        filled = lengths > 0
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        # The end of a text and the beginning of the next one have one index: the end comes first.
        places = ((bounds[1:][filled], self.eos), (bounds[:-1][filled], self.bos))
        added = [(at, np.full(len(at), token, np.int32)) for at, token in places if token is not None]
        indices = np.concatenate([np.zeros(0, np.int64), *(at for at, _ in added)])
        tokens = np.concatenate([np.zeros(0, np.int32), *(of_place for _, of_place in added)])
        order = np.argsort(indices, kind="stable")
        return indices[order], tokens[order], np.where(filled, len(added), 0)

    @property
    def first_token(self) -> str | None:
        """The special token that the tokenizer itself puts before a text; None if there is not just one."""
        return None

    def add_ends(self, *, bos: bool, eos: bool) -> None:
        """Put the tokenizer's own first and last token around each text."""
        special = count_special_tokens(self.file) if bos or eos else NO_SPECIAL_TOKENS
        for name, wanted, already in (("bos", bos, special.opening), ("eos", eos, special.closing)):
            if wanted and already:
                raise ConfigError(
                    f"the tokenizer puts special tokens there itself, and {name} would add another",
                    path=self.path,
                    hint=f"Leave out {name}.",
                )
            if wanted:
                setattr(self, name, self._end(name))

    def _end(self, name: str) -> int:
        role = f"{name}_token"
        if (named := self.named_id(role)) is not None:
            return named
        special = self.settings.special_tokens
        for text in () if role in special else _ENDS[name]:
            if (number := self.id_of(text)) is not None:
                if self.file is not None:
                    self.settings = replace(self.settings, special_tokens={**special, role: text})
                return number
        raise ConfigError(
            f"the tokenizer has no token for {name}",
            path=self.path,
            hint=f'Name it as "{role}" in tokenizer_config.json beside the file, or leave out {name}.',
        )

    def named_id(self, role: str) -> int | None:
        """Id of the token that the settings name, such as ``pad_token``; None if they name none."""
        named = self.settings.special_tokens.get(role)
        number = None if named is None else self.id_of(named)
        if named is not None and number is None:
            raise ConfigError(
                f"{role} must be a token of the tokenizer, found {named!r}",
                path=self.path,
                hint="Change it in tokenizer_config.json, or add the token to the tokenizer's JSON.",
            )
        return number


class ByteTokenizer(Tokenizer):
    """UTF-8 bytes are the ids 0 to 255; 256, 257 and 258 are free for padding, start and end of a text."""

    name = "bytes"
    vocab_size = 259
    pad_id = 256

    def id_of(self, token: str) -> int | None:
        return BYTE_TOKENS.get(token)

    def _tokens(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        encoded = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.frombuffer(b"".join(encoded), np.uint8).astype(np.int32), lengths

    def _tokens_with_offsets(self, texts: Sequence[str], special: bool) -> tuple[Ids, Lengths, Ids, Ids]:
        ids, lengths = self._tokens(texts)
        characters = np.cumsum((ids & 0xC0) != 0x80)  # all bytes but the later ones of a character
        before = np.cumsum([0, *map(len, texts)])[:-1]
        ends = (characters - np.repeat(before, lengths)).astype(np.int32)
        return ids, lengths, ends - 1, ends


class FileTokenizer(Tokenizer):
    """A JSON file of the library ``tokenizers``, with its special tokens, but no truncation and padding."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        path = tokenizer_path(path)
        try:
            self.file = read_regular(path)
        except OSError as error:
            raise ConfigError(
                f"tokenizer must be bytes or the path of a tokenizers JSON; the file cannot be read: "
                f"{error.strerror}",
                path=path,
                hint=_OTHER_FORMS,
            ) from error
        self.path, self.name = path, path.name
        try:
            self._tokenizer = _load(self.file)
        except ValueError as error:
            reason = f"the file is not a tokenizers JSON: {error}"
            raise SourceError(reason, path=path, hint=_OTHER_FORMS) from error
        self.settings = TokenizerSettings.beside(path)
        self.pad_id = self._pad()
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.vocab_size = max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    def id_of(self, token: str) -> int | None:
        number: int | None = self._tokenizer.token_to_id(token) if is_unicode(token) else None
        return number

    def _pad(self) -> int:
        padding = self._tokenizer.padding
        if (named := self.named_id("pad_token")) is not None or padding:
            return int(padding["pad_id"]) if named is None else named
        # A tokenizer without a token for padding pads with its last one, as trainings of transformers do.
        found = (*map(self.id_of, _PADS), self.named_id("eos_token"))
        return next((number for number in found if number is not None), 0)

    @property
    def first_token(self) -> str | None:
        if count_special_tokens(self.file).opening != 1:
            return None
        return str(self._tokenizer.encode("").tokens[0])

    def _tokens(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        encoded = [one.ids for one in self._tokenizer.encode_batch_fast(list(texts))]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        ids = np.fromiter((token for one in encoded for token in one), np.int32, int(lengths.sum()))
        return ids, lengths

    def _tokens_with_offsets(self, texts: Sequence[str], special: bool) -> tuple[Ids, Lengths, Ids, Ids]:
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=special)
        lengths = np.fromiter((len(one.ids) for one in encoded), np.int64, len(encoded))
        ids = np.fromiter((token for one in encoded for token in one.ids), np.int32, int(lengths.sum()))
        offsets = np.array([span for one in encoded for span in one.offsets], np.int32).reshape(-1, 2)
        return ids, lengths, offsets[:, 0], offsets[:, 1]


def tokenizer_path(path: str | os.PathLike[str]) -> Path:
    """Path of the JSON of a tokenizer, which may be named by its folder."""
    return Path(path) / TOKENIZER_NAME if Path(path).is_dir() else Path(path)


def _load(file: bytes) -> Any:
    """The library's tokenizer of a file's content; ValueError for other content."""
    with optional_import("a tokenizer from a file needs the package tokenizers", "tokenizers"):
        import tokenizers
    try:
        return tokenizers.Tokenizer.from_buffer(file)
    except Exception as error:  # the package raises plain Exception
        raise ValueError(str(error)) from error


def _load_stored(file: bytes) -> Any:
    try:
        return _load(file)
    except ValueError as error:
        raise DatasetError(
            f"tokenizer.json cannot be read: {error}", hint="Convert the text again."
        ) from error


def _tokenizer_of(folder: Path) -> Tokenizer:
    manifest = Manifest.load(folder)
    name = manifest.options.get("tokenizer")
    if not name:
        raise ConfigError(
            f"vocabulary must be a dataset of text, found one of {manifest.sample_type}s", path=folder
        )
    has_file = manifest.options.get("tokenizer_digest")
    tokenizer: Tokenizer = FileTokenizer(folder / TOKENIZER_NAME) if has_file else ByteTokenizer()
    tokenizer.name, tokenizer.pad_id = str(name), int(manifest.options.get("pad_id") or 0)
    tokenizer.settings = TokenizerSettings.of_dataset(manifest.options)
    return tokenizer


def tokenizer_options(
    tokenizer: Tokenizer, choice: TokenizerChoice, chat_template: str | None = None
) -> dict[str, Any]:
    """The options of a dataset about the tokenizer that made its token ids, and the template of its chats."""
    settings = replace(
        tokenizer.settings, chat_template=chat_template or tokenizer.settings.chat_template
    ).to_option()
    return {
        "tokenizer": tokenizer.name,
        "tokenizer_digest": "" if tokenizer.file is None else hashlib.sha256(tokenizer.file).hexdigest(),
        "vocab_size": tokenizer.vocab_size,
        "pad_id": tokenizer.pad_id,
        "dtype": "uint16" if tokenizer.vocab_size <= 1 << 16 else "int32",
        "bos": choice.bos,
        "eos": choice.eos,
        "tokenizer_settings": settings,
    }


def _read_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one if there is no file."""
    document = _read_settings(file, json.loads) if file.is_file() else {}
    if not is_unicode(json.dumps(document, ensure_ascii=False)):
        raise SourceError("the tokenizer's settings have half of a surrogate pair", path=file)
    return document if isinstance(document, dict) else {}


def _read_settings(file: Path, parse: Callable[[str], Any] = str) -> Any:
    try:
        return parse(read_regular(file).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"the tokenizer's settings cannot be read: {error}", path=file) from error


def _token_text(value: Any) -> str | None:
    """The text of a special token, which settings have as a text or as an object."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


class SpecialTokens(NamedTuple):
    """Numbers of special tokens before and after the tokens of a text: 1 and 1 for [CLS] and [SEP]."""

    opening: int
    closing: int


NO_SPECIAL_TOKENS = SpecialTokens(0, 0)


def count_special_tokens(file: bytes | None) -> SpecialTokens:
    """The special tokens that a tokenizer adds around a single sequence, from the content of its file."""
    if file is None:
        return NO_SPECIAL_TOKENS
    tokenizer = _load_stored(file)
    if not tokenizer.num_special_tokens_to_add(False):
        return NO_SPECIAL_TOKENS
    for text in ("a", *tokenizer.get_vocab()):
        mask = tokenizer.encode(text).special_tokens_mask
        if 0 in mask:
            return SpecialTokens(mask.index(0), mask[::-1].index(0))
    return NO_SPECIAL_TOKENS  # a vocabulary of special tokens alone


def special_tokens_of(datasets: Sequence[Dataset]) -> list[SpecialTokens]:
    """The special tokens around each text of datasets that have one tokenizer, captions included."""
    # A chat has the special tokens of its template inside, and none around.
    options = [dataset.manifest.options for dataset in datasets]
    is_chat = [bool(of_dataset.get("template_digest")) for of_dataset in options]
    has_file = options[0].get("tokenizer_digest") and not all(is_chat)
    own = count_special_tokens(datasets[0].tokenizer_file() if has_file else None)
    return [
        NO_SPECIAL_TOKENS
        if chat
        else SpecialTokens(own.opening + bool(one.get("bos")), own.closing + bool(one.get("eos")))
        for chat, one in zip(is_chat, options, strict=True)
    ]


def common_special_tokens(datasets: Sequence[Dataset]) -> SpecialTokens:
    """The special tokens around each text, for what takes the same for all; ConfigError if they differ."""
    first, *others = special_tokens_of(datasets)
    for dataset, special in zip(datasets[1:], others, strict=True):
        if special != first:
            raise ConfigError(
                f"the texts of a mixture must begin and end with as many special tokens, found "
                f"{first.opening} and {first.closing}, and {special.opening} and {special.closing}",
                path=dataset.path,
                hint=f"Convert both with the same bos and eos; the first is {datasets[0].path}.",
            )
    return first


def read_word_parts(file: bytes) -> tuple[tuple[int, ...], npt.NDArray[np.bool_] | None]:
    """Ids of special tokens; and (V,) bool, the ids that continue the word before them."""
    # A piece of WordPiece continues a word if it begins with "##". With Metaspace and ByteLevel, as of
    # SentencePiece, Llama and GPT-2, it does unless it begins with the sign for a space; punctuation then
    # belongs to the word before it. A vocabulary of words has no parts. The second is None for other
    # tokenizers.
    tokenizer = _load_stored(file)
    special = tuple(number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special)
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    table = np.zeros(max(vocabulary.values(), default=-1) + 1, np.bool_)
    model = type(tokenizer.model).__name__
    if model == "WordLevel":
        return special, table
    if model == "WordPiece":
        prefix = tokenizer.model.continuing_subword_prefix
        table[[number for piece, number in vocabulary.items() if piece.startswith(prefix)]] = True
        return special, table
    pieces = tokenizer.pre_tokenizer.pre_tokenize_str("a b") if tokenizer.pre_tokenizer else []
    sign = "".join(piece for piece, _ in pieces).partition("a")[2].removesuffix("b")  # of the space
    if not sign.strip():
        return special, None
    table[[number for piece, number in vocabulary.items() if not piece.startswith(sign)]] = True
    return special, table


def make_decoder(file: bytes | None) -> Callable[[Sequence[int]], str]:
    """Return a function that makes the text of token ids, special tokens included; None stands for bytes."""
    if file is None:
        return _decode_bytes
    tokenizer = _load_stored(file)
    return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False))


def _decode_bytes(ids: Sequence[int]) -> str:
    names = {number: token.encode() for token, number in BYTE_TOKENS.items()}
    data = b"".join(bytes([token]) if token < 256 else names.get(token, b"") for token in ids)
    return data.decode(errors="replace")
