"""The form of captions in a batch of images: the loader's argument ``caption``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from stoker.arguments import optional_number, whole_number
from stoker.errors import ConfigError
from stoker.formats.tokenization.captions import CAPTION

Form = Literal["padded", "longest", "ragged", "packed"]
Choice = Literal["random", "first"]
TooLong = Literal["truncate", "error"]


@dataclass(frozen=True)
class Tokens:
    """Captions as token ids, for the argument ``caption`` of :class:`stoker.ImageLoader`.

    If an image has several captions, each epoch draws one of them. The draw follows from seed, epoch and
    sample alone, and does not change any other draw.

    Args:
        max_length: Largest number of tokens. A longer caption is cut, and keeps the special tokens that the
            tokenizer puts at its end, such as [SEP] or the end of a text.
        form: "padded" to ``max_length``, so that all batches have one shape; "longest" pads to the longest
            caption of the batch; "ragged" hands out a list of N arrays. "packed" goes with
            :class:`stoker.Patches`: the captions of the images of a packed row form a row of tokens.
        choose: "random" draws one of several captions; "first" takes the first one, for evaluations.
        tokenizer: For captions that the dataset keeps as texts: "bytes", the path of a Hugging Face
            tokenizers JSON, or a function that returns the token ids of each of a list of texts. None takes
            the token ids of ``stoker convert --caption-column``.
        column: Name of the column of texts; a text that is a JSON list of texts is several captions.
        pad_id: Token id for padding; None takes the id of the tokenizer, or 0 for a function.
        row: Tokens of a packed row, at least ``max_length``; only with ``form="packed"``.
        too_long: "truncate" cuts a caption of more than ``max_length`` tokens, and "error" raises a
            ConfigError that names its sample.

    Raises:
        ConfigError: An argument has a value that it cannot have.
    """

    max_length: int
    form: Form = "padded"
    choose: Choice = "random"
    tokenizer: str | os.PathLike[str] | Callable[[list[str]], Sequence[Sequence[int]]] | None = None
    column: str = CAPTION
    pad_id: int | None = None
    row: int | None = None
    too_long: TooLong = "truncate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_length", whole_number("Tokens: max_length", self.max_length, 1))
        object.__setattr__(self, "pad_id", optional_number("Tokens: pad_id", self.pad_id, 0))
        object.__setattr__(self, "row", optional_number("Tokens: row", self.row, 1))
        for name, kind in (("form", Form), ("choose", Choice), ("too_long", TooLong)):
            if (value := getattr(self, name)) not in (allowed := get_args(kind)):
                raise ConfigError(f"Tokens: {name} must be one of {', '.join(allowed)}, found {value!r}")
        self._check_row()
        if self.tokenizer is None and self.column != CAPTION:
            raise ConfigError(
                f"Tokens: column={self.column!r} has texts, and no tokenizer is given",
                hint="Give tokenizer='tokenizer.json', or leave column out for captions that are token ids.",
            )
        if self.tokenizer in ("whitespace", "bpe"):
            raise ConfigError(
                f"Tokens: {self.tokenizer!r} makes its vocabulary of all texts, which a loader does not read",
                hint="Convert with --caption-column and --tokenizer, or give the path of a tokenizers JSON.",
            )

    def _check_row(self) -> None:
        if (self.form == "packed") != (self.row is not None):
            raise ConfigError(
                f"Tokens: form='packed' and row go together, found form={self.form!r} and row={self.row}",
                hint=f"Give form='packed', row={4 * self.max_length}, or leave both out.",
            )
        if self.row is not None and self.row < self.max_length:
            raise ConfigError(
                f"Tokens: a row of {self.row} tokens holds no caption of max_length={self.max_length}",
                hint=f"Give a row of at least {self.max_length}, such as {4 * self.max_length}.",
            )
        if self.row is not None and self.tokenizer is not None:
            raise ConfigError(
                "Tokens: packed rows are planned by numbers of tokens, which texts do not have",
                hint="Convert with --caption-column and --tokenizer, and leave tokenizer out.",
            )

    def to_json(self) -> dict[str, Any]:
        """All that decides the captions, as a dictionary that JSON can hold."""
        fields = {name: getattr(self, name) for name in ("max_length", "form", "choose", "column", "pad_id")}
        later = {"row": None, "too_long": "truncate"}  # left out at these values, as in older states
        fields |= {name: getattr(self, name) for name, usual in later.items() if getattr(self, name) != usual}
        return {**fields, "tokenizer": self._identity()}

    def _identity(self) -> str | None:
        """The identity of the tokenizer in states: the digest of its file, or the name of a function."""
        tokenizer = self.tokenizer
        if tokenizer is None or tokenizer == "bytes":
            return tokenizer
        if isinstance(tokenizer, (str, os.PathLike)):
            return hashlib.sha256(Path(tokenizer).read_bytes()).hexdigest()
        name = getattr(tokenizer, "__qualname__", type(tokenizer).__name__)
        return f"{getattr(tokenizer, '__module__', '')}.{name}"
