"""The options of a conversion of text: the arguments, each declared once, and their resolved form."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stoker.arguments import NamedArguments, list_of_names
from stoker.errors import ConfigError

from ..conversion.options import DAILY, CommonArguments, ShardOptions, Storage, parse_loss
from ..options import check_options, option, option_group, whole
from ..tokenization import TokenizerChoice

_RECORD_OVERHEAD = 80  # bytes: framing, the names of the features
_MOST_PROCESSES = 4096


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _message_names(name: str, value: Any) -> tuple[str, ...]:
    names = tuple(_split_names(value)) if isinstance(value, str) else list_of_names(name, value)
    if not (0 < len(set(names)) == len(names) < 4 and all(names)):
        raise ConfigError(f"{name} must be one to three different names, found {value!r}")
    return names


def _iso_date(name: str, value: Any) -> str:
    try:
        return date.fromisoformat(str(value)).isoformat()
    except ValueError as error:
        raise ConfigError(f"{name} must be a date such as 2025-01-31, found {str(value)!r}") from error


def _variables(name: str, value: Any) -> dict[str, Any]:
    try:
        document = json.loads(value) if isinstance(value, str) else json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name} must be values of JSON by name: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{name} must be values of JSON by name, found {value!r}")
    if taken := {"messages", "add_generation_prompt"} & document.keys():
        raise ConfigError(f"{name} must leave {min(taken)} to the conversion, found {document[min(taken)]!r}")
    return document


@dataclass(frozen=True)
class Training(NamedArguments):
    """How chats become text, and which tokens of each sample a model is trained on."""

    messages: str | Sequence[str] | None = option(
        None,
        "Name of the value with the messages of a chat, [{role, content}, ...], in place of fields. A sample "
        "is then one sequence, which the chat template makes of them. Of two names, such as "
        "prompt,completion, the second continues the first and is trained. Of chosen,rejected or "
        "prompt,chosen,rejected preference pairs are made.",
        "Chats and answers",
        check=_message_names,
    )
    chat_template: str | os.PathLike[str] | None = option(
        None,
        "chatml, or a Jinja file; by default the template of the tokenizer, which lies beside its file.",
        "Chats and answers",
    )
    train_on: str | None = option(
        None,
        "What a model is trained on. For chats: assistant (default), last or all. For fields: some of them, "
        "with commas between, or all; the fields then form one sequence. Loaders label other tokens -100.",
        "Chats and answers",
    )
    layout: str | None = option(
        None,
        "Text that joins the fields for train_on, with each of them once in braces, such as "
        "'{question} Answer: {answer}'. By default one follows the other with nothing between.",
        "Chats and answers",
    )
    date: str | None = option(
        None,
        "Date that chat templates write as today's, such as 2025-01-31, wherever they ask for it.",
        "Chats and answers",
        check=_iso_date,
    )
    template_variables: Mapping[str, Any] | str | None = option(
        None,
        'Variables of the chat template, or their JSON, such as {"enable_thinking": false}. Those of a '
        "sample, chat_template_kwargs, come first.",
        "Chats and answers",
        check=_variables,
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
    allow_loss: Fraction | float | str | None = option(
        None,
        "Largest share of the samples that may be left out, such as 10%. The default is 1%, or ten samples "
        "if they are at most half of all.",
        DAILY,
        check=parse_loss,
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
        (
            *("train_on", "joined", "layout", "bos", "eos", "tokenizer_settings", "chat_template"),
            *("template_digest", "template_date", "template_variables"),
        )
    )

    fields: str = "tokens"  # Names of the sequences of a sample, with commas between
    tokenizer: str = "bytes"  # bytes, or the name of the tokenizer's file
    tokenizer_digest: str = ""  # SHA-256 of the dataset's ``tokenizer.json``; empty if it has none
    vocab_size: int = 0  # All token ids are less than this
    pad_id: int = 0
    dtype: str = "uint16"  # Type of the payload: uint16 or int32, little-endian
    train_on: str = ""
    joined: str = ""  # Names of the fields that are joined to one sequence, with commas between
    layout: str = ""  # Text that joins them
    chat_template: str = ""  # Name of the chat template
    template_digest: str = ""  # SHA-256 of the chat template
    template_date: str = ""
    template_variables: str = ""  # as JSON
    bos: bool = False  # Whether each sequence begins with a token that the tokenizer alone does not add
    eos: bool = False
    tokenizer_settings: str = ""  # Special tokens and chat template, as JSON; empty if unknown

    def record_bytes(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See :meth:`ShardOptions.record_bytes`. An id is stored twice, and a word has about five letters."""
        size: npt.NDArray[Any] = sizes * (3 if self.tokenizer == "bytes" else 1)
        size += _RECORD_OVERHEAD
        return size
