"""The options of a conversion of text: the arguments, each declared once, and their resolved form."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..conversion.options import DAILY, CommonArguments, ShardOptions, Storage
from ..options import check_options, option, option_group, whole
from ..tokenization import TokenizerChoice

_RECORD_OVERHEAD = 80  # bytes: framing, the names of the features
_MOST_PROCESSES = 4096


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


@dataclass(frozen=True)
class Training:
    """How chats become text, and which tokens of each sample a model is trained on."""

    messages: str | None = option(
        None,
        "Name of the value with the messages of a chat, [{role, content}, ...], in place of fields. A sample "
        "is then one sequence, which the chat template makes of them.",
        "Chats and answers",
    )
    chat_template: str | os.PathLike[str] | None = option(
        None,
        "chatml, or a Jinja file; by default the template of the tokenizer, which lies beside its file.",
        "Chats and answers",
    )
    train_on: str | None = option(
        None,
        "What a model is trained on. For chats: assistant (default), last or all. For fields: some of them, "
        "with commas between; all fields then form one sequence. Loaders label all other tokens -100.",
        "Chats and answers",
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class TextArguments(TokenizerChoice, CommonArguments):
    """The arguments of :func:`stoker.convert_text`, without source, target and progress."""

    fields: Sequence[str] | None = option(
        None,
        "Fields of the JSON lines, or names for parallel files, with commas between.",
        DAILY,
        flags=("--fields", "--text"),
        parse=_split_names,
    )
    label: str | None = option(None, "Value of the JSON lines that is the class of a sample.", DAILY)
    columns: Sequence[str] | None = option(
        None,
        "Further values of the JSON lines that become columns of the index, with commas between.",
        DAILY,
        parse=_split_names,
    )
    parallel: bool = option(
        False, "The text files are parallel: the lines with the same number form one sample.", DAILY
    )
    processes: int | None = option(
        None,
        "Number of processes that make token ids; 0 uses threads. By default chats of 4 MB or more have one "
        "process for each thread, and other texts have none.",
        DAILY,
        check=whole(0, _MOST_PROCESSES),
    )
    training: Training = option_group(Training)
    storage: Storage = option_group(Storage)

    def __post_init__(self) -> None:
        TokenizerChoice.__post_init__(self)


@dataclass(frozen=True)
class TextOptions(ShardOptions):
    """The resolved options of text."""

    made_by: ClassVar[str] = "convert-text"
    most_records: ClassVar[int] = 1 << 18
    omitted: ClassVar[frozenset[str]] = frozenset(
        ("train_on", "joined", "chat_template", "template_digest", "bos", "eos", "tokenizer_settings")
    )

    fields: str = "tokens"  # Names of the sequences of a sample, with commas between
    tokenizer: str = "bytes"  # bytes, or the name of the tokenizer's file
    tokenizer_digest: str = ""  # SHA-256 of the dataset's ``tokenizer.json``; empty if it has none
    vocab_size: int = 0  # All token ids are less than this
    pad_id: int = 0
    dtype: str = "uint16"  # Type of the payload: uint16 or int32, little-endian
    train_on: str = ""
    joined: str = ""  # Names of the fields that are joined to one sequence, with commas between
    chat_template: str = ""  # Name of the chat template
    template_digest: str = ""  # SHA-256 of the chat template
    bos: bool = False  # Whether each sequence begins with a token that the tokenizer alone does not add
    eos: bool = False
    tokenizer_settings: str = ""  # Special tokens and chat template, as JSON; empty if unknown

    def record_bytes(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See :meth:`ShardOptions.record_bytes`. An id is stored twice, and a word has about five letters."""
        size: npt.NDArray[Any] = sizes * (3 if self.tokenizer == "bytes" else 1)
        size += _RECORD_OVERHEAD
        return size
