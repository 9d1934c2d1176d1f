"""Chat templates: Jinja programs that turn the messages of a chat into one text, as tokenizers have them.

The language is that of Hugging Face's tokenizers, with ``{% generation %}`` around the assistant's messages:
https://huggingface.co/docs/transformers/chat_templating
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of
from stoker.errors import ConfigError, optional_import

from ..tokenization import Tokenizer
from .options import Training

_NAMED = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}"
    "{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
}
# Unicode keeps these characters free for use inside of programs; data may have them all the same.
_MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
_MARKS_OF_RENDER = "stoker marks"  # no variable of a template has a name with a space
_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")

Span = tuple[int, int]


class TemplateError(Exception):
    """A chat that the template refuses, or that it renders in no usable way."""


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template.

    The function ``strftime_now`` is not defined, because the same source must always give the same tokens.
    Templates then write the date that they have for this case.
    """

    source: str  # The Jinja program
    name: str  # Its name in the options of a dataset
    # Texts of special tokens by their names, such as ``bos_token``, which templates use
    tokens: Mapping[str, str]

    def __post_init__(self) -> None:
        _ = self._compiled

    def __reduce__(self) -> tuple[Any, ...]:
        return ChatTemplate, (self.source, self.name, self.tokens)  # each process compiles the template again

    def render(
        self, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]
    ) -> tuple[str, list[Span]]:
        """Return the text of a chat, and the first and the end character of each answer of the assistant."""
        # A template without marks must render a chat as the beginning of every longer chat. An answer is then
        # the text that its message adds after the prompt for it.
        for name, present in (
            ("tools", variables.get("tools")),
            ("tool_calls", any(message.get("tool_calls") for message in messages)),
        ):
            if present and name not in self.source:
                raise TemplateError(f"the chat has {name}, and the template does not render them")
        if self._marks_answers:
            present = json.dumps([self.source, dict(self.tokens), messages, variables], ensure_ascii=False)
            begin, end, *_ = [*(mark for mark in _MARKS if mark not in present), "", ""]
            if not end:
                raise TemplateError("the chat has all characters that could mark its answers")
            return _split_marks(
                self._text(messages, {**variables, _MARKS_OF_RENDER: (begin, end)}), begin, end
            )
        text, spans = self._text(messages, variables), []
        for number, message in enumerate(messages):
            if message.get("role") == "assistant":
                begin = self._text(messages[:number], variables, add_generation_prompt=True)
                end = self._text(messages[: number + 1], variables)
                if not (text.startswith(end) and end.startswith(begin)):
                    raise TemplateError(
                        "the template marks no answers, and later messages change the text before them"
                    )
                spans.append((len(begin), len(end)))
        return text, spans

    def _text(
        self,
        messages: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any],
        *,
        add_generation_prompt: bool = False,
    ) -> str:
        import jinja2

        values = {"tools": None, **self.tokens, **variables}
        values |= {"messages": messages, "add_generation_prompt": add_generation_prompt}
        try:
            return str(self._compiled.render(values))
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise TemplateError(str(error)) from error

    @cached_property
    def _marks_answers(self) -> bool:
        """Whether the template has a block for answers."""
        from jinja2 import nodes

        blocks = self._compiled.environment.parse(self.source).find_all(nodes.ExtensionAttribute)
        return next(iter(blocks), None) is not None

    @property
    def needed_tokens(self) -> set[str]:
        """Names of the special tokens that the template uses without asking whether there are such."""
        from jinja2 import meta, nodes

        tree = self._compiled.environment.parse(self.source)
        asked: list[Any] = [node.test for node in tree.find_all((nodes.If, nodes.CondExpr))]
        asked += [node for node in tree.find_all(nodes.Filter) if node.name in ("default", "d")]
        within = [name for node in asked for name in (node, *node.find_all(nodes.Name))]
        optional = {name.name for name in within if isinstance(name, nodes.Name)}
        return (meta.find_undeclared_variables(tree) & set(_SPECIAL)) - optional

    @cached_property
    def _compiled(self) -> Any:
        with optional_import("chat templates need the package jinja2", "jinja2"):
            import jinja2
            from jinja2.ext import loopcontrols
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_generation_extension(), loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        try:
            return environment.from_string(self.source)
        except jinja2.TemplateError as error:
            raise ConfigError(f"the chat template {self.name} is no Jinja program: {error}") from error


def find_template(name_or_path: str | None, tokenizer: Tokenizer) -> ChatTemplate:
    """Return a chat template with the special tokens of a tokenizer; None takes the tokenizer's template."""
    name, source = "tokenizer", tokenizer.settings.chat_template
    if name_or_path in _NAMED:
        name, source = name_or_path, _NAMED[name_or_path]
    elif name_or_path is not None:
        path = Path(name_or_path)
        try:
            name, source = path.name, path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"chat_template must be {', '.join(_NAMED)} or the path of a Jinja file; the file cannot be "
                f"read: {error}",
                path=path,
            ) from error
    if source is None:
        raise ConfigError(
            "the tokenizer has no chat template beside its file",
            path=tokenizer.path,
            hint="Name one with chat_template: chatml, or the path of a Jinja file.",
        )
    known = tokenizer.settings.special_tokens
    template = ChatTemplate(source, name, {role: text for role, text in known.items() if text is not None})
    for role in sorted(template.needed_tokens - known.keys()):
        token = tokenizer.first_token if role == "bos_token" else None
        if token is None:
            raise ConfigError(
                f"the chat template uses {role}, and the tokenizer does not say which token that is",
                path=tokenizer.path,
                hint=f'Name it as "{role}" in tokenizer_config.json beside the tokenizer\'s file, or as null '
                "if there is none.",
            )
        template = replace(template, tokens={**template.tokens, role: token})
    return template


def _split_marks(marked: str, begin: str, end: str) -> tuple[str, list[Span]]:
    pieces, spans, offset = [], [], 0
    for number, part in enumerate(marked.split(begin)):
        inside, mark, outside = part.partition(end) if number else ("", "", part)
        if (number and not mark) or end in outside:
            raise TemplateError("an answer of the template has no beginning or no end")
        if mark:
            spans.append((offset, offset + len(inside)))
        offset += len(inside) + len(outside)
        pieces += [inside, outside]
    return "".join(pieces), spans


def _generation_extension() -> Any:
    """The extension of Jinja for ``{% generation %}``, which puts marks around the text inside."""
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012 - Jinja's interface

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            call = self.call_method("_mark", [nodes.ContextReference()])
            return nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _mark(self, context: Any, caller: Any) -> str:
            begin, end = context[_MARKS_OF_RENDER]
            return f"{begin}{caller()}{end}"

    return Generation


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _raise(message: str) -> None:
    import jinja2

    raise jinja2.TemplateError(message)


TrainOn = Literal["assistant", "last", "all"]
"""The messages of a chat that a model is trained on: all of the assistant, its last one, or everything."""


class ComposedText(NamedTuple):
    """The text of a sample."""

    text: str  # The text
    # First and end character of each part that a model is trained on, ascending; None for all
    spans: Sequence[Span] | None


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
        return self.train_on == "all"

    @property
    def options(self) -> dict[str, str]:
        digest = hashlib.sha256(self.template.source.encode()).hexdigest()
        return {"train_on": self.train_on, "chat_template": self.template.name, "template_digest": digest}

    def compose(self, values: tuple[Any, ...]) -> ComposedText:
        messages, variables = values
        text, spans = self.template.render(messages, variables)
        if self.train_on == "all":
            return ComposedText(text, None)
        spans = _weighted(spans, [message for message in messages if message["role"] == "assistant"])
        return ComposedText(text, spans[-1:] if self.train_on == "last" else spans)


def _weighted(spans: list[Span], answers: Sequence[Mapping[str, Any]]) -> list[Span]:
    """The spans of the answers but those whose ``weight`` is 0, which OpenAI's format leaves untrained."""
    weights = [answer.get("weight", 1) for answer in answers]
    if wrong := [weight for weight in weights if weight not in (0, 1)]:
        raise TemplateError(f"the weight of a message must be 0 or 1, found {wrong[0]!r}")
    if all(weights):
        return spans
    if len(spans) != len(answers):
        raise TemplateError(f"messages have weights, and the template marks {len(spans)} of {len(answers)}")
    return [span for span, weight in zip(spans, weights, strict=True) if weight]


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
        return {"train_on": ",".join(self.trained), "joined": ",".join(self.fields)}

    def compose(self, values: tuple[Any, ...]) -> ComposedText:
        ends = np.cumsum([len(value) for value in values]).tolist()
        bounds = zip(self.fields, [0, *ends], ends, strict=False)
        return ComposedText("".join(values), [(a, b) for name, a, b in bounds if name in self.trained])


TextComposer = ChatComposer | FieldComposer
"""Makes one text of the values of a sample, and knows the options of the dataset about it."""


def find_composer(
    fields: Sequence[str] | None, training: Training, tokenizer: Tokenizer
) -> TextComposer | None:
    """Return the composer that the arguments of a conversion ask for; None if fields stay separate."""
    messages, chat_template, train_on = training.messages, training.chat_template, training.train_on
    if messages is not None:
        if fields is not None:
            raise ConfigError("messages and fields both say what the text is", hint="Leave out one of them.")
        chosen: Any = one_of("train_on", "assistant" if train_on is None else train_on, get_args(TrainOn))
        template = find_template(None if chat_template is None else str(chat_template), tokenizer)
        return ChatComposer(messages, template, chosen)
    if chat_template is not None:
        raise ConfigError(
            "a chat template renders messages", hint="Name the value that has them with messages."
        )
    if train_on is None:
        return None
    names = tuple(fields or ())
    trained = tuple(name.strip() for name in train_on.split(","))
    if len(names) < 2 or not set(trained) < set(names):
        raise ConfigError(
            f"train_on must name some of several fields, and is {train_on!r} of {', '.join(names)}",
            hint="Give both: fields=('question', 'answer') and train_on='answer'; or messages for chats.",
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
