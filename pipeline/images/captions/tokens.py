"""The form of captions in a batch of images: the loader's argument ``caption``."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from stoker.errors import ConfigError
from stoker.formats.tokenization.captions import CAPTION

from ...execution.arguments import optional_number, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Tokens"]

Form = Literal["padded", "longest", "ragged"]
Choice = Literal["random", "first"]


@dataclass(frozen=True)
class Tokens:
    """Captions as token ids, for the argument ``caption`` of :class:`stoker.ImageLoader`.

    Of an image with several captions each epoch draws one. The draw follows from seed, epoch and sample
    alone, and does not change any other draw.

    Args:
        max_length: Largest number of tokens. A longer caption is cut, and keeps the special tokens that the
            tokenizer puts at its end, such as [SEP] or the end of a text.
        form: "padded" to ``max_length``, so that all batches have one shape; "longest" pads to the longest
            caption of the batch; "ragged" hands out a list of N arrays.
        choose: "random" draws one of several captions; "first" takes the first one, for evaluations.
        tokenizer: For captions that the dataset keeps as texts: "bytes", the path of a Hugging Face
            tokenizers JSON, or a function that returns the token ids of each of a list of texts. None takes
            the token ids of ``stoker convert --caption-column``.
        column: Name of the column of texts; a text that is a JSON list of texts is several captions.
        pad_id: Token id for padding; None takes that of the tokenizer, and of a function 0.

    Raises:
        ConfigError: An argument has a value that it cannot have.
    """

    max_length: int
    form: Form = "padded"
    choose: Choice = "random"
    tokenizer: str | os.PathLike[str] | Callable[[list[str]], Sequence[Sequence[int]]] | None = None
    column: str = CAPTION
    pad_id: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_length", whole_number("Tokens: max_length", self.max_length, 1))
        object.__setattr__(self, "pad_id", optional_number("Tokens: pad_id", self.pad_id, 0))
        for name, allowed in (("form", get_args(Form)), ("choose", get_args(Choice))):
            if (value := getattr(self, name)) not in allowed:
                raise ConfigError(f"Tokens: {name} must be one of {', '.join(allowed)}, found {value!r}")
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

    def to_json(self) -> dict[str, Any]:
        """All that decides the captions, as a dictionary that JSON can hold."""
        made = {name: getattr(self, name) for name in ("max_length", "form", "choose", "column", "pad_id")}
        return {**made, "tokenizer": self._identity()}

    def _identity(self) -> str | None:
        """What states know the tokenizer by: the digest of its file, or the name of a function."""
        given = self.tokenizer
        if given is None or given == "bytes":
            return given
        if isinstance(given, (str, os.PathLike)):
            return hashlib.sha256(Path(given).read_bytes()).hexdigest()
        return f"{getattr(given, '__module__', '')}.{getattr(given, '__qualname__', type(given).__name__)}"
