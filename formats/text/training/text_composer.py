"""Composers, which make one text of the values of a sample, and say which parts a model is trained on.

The encoder composes the text of each sample, and keeps the trained tokens as runs in a column of the index.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .chat_template import ChatTemplate, Span, find_template

TrainOn = Literal["assistant", "last", "all"]
"""The messages of a chat that a model is trained on: all of the assistant, its last one, or everything."""


class ComposedText(NamedTuple):
    """The text of a sample."""

    text: str  # The text
    # First and end character of each part that a model is trained on, ascending; None for all
    spans: Sequence[Span] | None


class TextComposer(Protocol):
    """Makes one text of the values of a sample."""

    @property
    def field(self) -> str:
        """Name of the sequence of tokens."""

    @property
    def trains_all(self) -> bool:
        """Whether every token is trained, so that the index has no runs."""

    @property
    def options(self) -> dict[str, str]:
        """The options of the dataset about it."""

    @property
    def adds_special_tokens(self) -> bool:
        """Whether the tokenizer adds its special tokens around the text."""

    @property
    def holds_lock(self) -> bool:
        """Whether composing takes so long in Python that processes are faster than threads."""

    def compose(self, values: tuple[Any, ...]) -> ComposedText:
        """Return the text of a sample."""


@dataclass(frozen=True)
class ChatComposer:
    """Renders the messages of a chat with a template."""

    field: str  # Name of the value with the messages, and of the sequence
    template: ChatTemplate  # The template
    train_on: TrainOn = "assistant"  # The messages that are trained
    adds_special_tokens: bool = False  # the template has them
    holds_lock: bool = True

    @property
    def trains_all(self) -> bool:
        """See :class:`TextComposer`."""
        return self.train_on == "all"

    @property
    def options(self) -> dict[str, str]:
        """See :class:`TextComposer`."""
        digest = hashlib.sha256(self.template.source.encode()).hexdigest()
        return {"train_on": self.train_on, "chat_template": self.template.name, "template_digest": digest}

    def compose(self, values: tuple[Any, ...]) -> ComposedText:
        """See :class:`TextComposer`."""
        text, spans = self.template.render(values[0])
        if self.train_on == "all":
            return ComposedText(text, None)
        return ComposedText(text, spans[-1:] if self.train_on == "last" else spans)


@dataclass(frozen=True)
class FieldComposer:
    """Joins the texts of fields, one after the other."""

    fields: tuple[str, ...]  # Names of the fields
    trained: tuple[str, ...]  # Names of those that are trained
    field: str = "text"
    adds_special_tokens: bool = True
    trains_all: bool = False
    holds_lock: bool = False

    @property
    def options(self) -> dict[str, str]:
        """See :class:`TextComposer`."""
        return {"train_on": ",".join(self.trained), "joined": ",".join(self.fields)}

    def compose(self, values: tuple[Any, ...]) -> ComposedText:
        """See :class:`TextComposer`."""
        ends = np.cumsum([len(value) for value in values]).tolist()
        bounds = zip(self.fields, [0, *ends], ends, strict=False)
        return ComposedText("".join(values), [(a, b) for name, a, b in bounds if name in self.trained])


def find_composer(
    fields: Sequence[str] | None,
    messages: str | None,
    chat_template: str | os.PathLike[str] | None,
    train_on: str | None,
    tokenizer: str | os.PathLike[str],
) -> ChatComposer | FieldComposer | None:
    """Return the composer that the arguments of a conversion ask for; None if fields stay separate."""
    if messages is not None:
        if fields is not None:
            raise ConfigError("messages and fields both say what the text is", hint="leave out one of them")
        chosen: Any = "assistant" if train_on is None else train_on
        if chosen not in get_args(TrainOn):
            raise ConfigError(f"train_on must be one of {', '.join(get_args(TrainOn))}, not {chosen!r}")
        template = find_template(None if chat_template is None else str(chat_template), str(tokenizer))
        return ChatComposer(messages, template, chosen)
    if chat_template is not None:
        raise ConfigError(
            "a chat template renders messages",
            hint="name the value that has them with messages= (--messages)",
        )
    if train_on is None:
        return None
    names = tuple(fields or ())
    trained = tuple(name.strip() for name in train_on.split(","))
    if len(names) < 2 or not set(trained) < set(names):
        raise ConfigError(
            f"train_on must name some of several fields, and is {train_on!r} of {', '.join(names)}",
            hint="give both: --fields question,answer --train-on answer; or --messages for chats",
        )
    return FieldComposer(names, trained)


def trained_runs(
    spans: Sequence[Span], characters: int, starts: npt.NDArray[np.int32], ends: npt.NDArray[np.int32]
) -> list[int]:
    """Return the runs of trained tokens of a text: the first token and the end of each, one after the other.

    A token is trained if one of its characters is. Tokens that the tokenizer adds after the text are trained
    if the last character is.
    """
    # starts (T,) int32, ends (T,) int32
    runs: list[int] = []
    with_text = np.flatnonzero(ends > starts)
    for begin, end in spans:
        if begin == end:
            continue
        inside = with_text[(ends[with_text] > begin) & (starts[with_text] < end)]
        if not len(inside):
            continue
        first, last = int(inside[0]), int(inside[-1]) + 1
        if end == characters and last == int(with_text[-1]) + 1:
            last = len(starts)
        if runs and first <= runs[-1]:
            runs[-1] = max(runs[-1], last)
        else:
            runs += [first, last]
    return runs
