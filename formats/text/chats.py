"""Chat templates: Jinja programs that turn the messages of a chat into one text, as tokenizers have them.

The language is that of Hugging Face's tokenizers, with ``{% generation %}`` around the assistant's messages:
https://huggingface.co/docs/transformers/chat_templating
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from os.path import commonprefix
from pathlib import Path
from string import Formatter
from typing import Any, ClassVar, Literal, NamedTuple, cast, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of
from stoker.errors import ConfigError, optional_import
from stoker.processes import cached_property

from ..files import is_unicode, read_regular
from ..options import given_options
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
JOINED = "text"  # name of a sequence that several values form
PAIR_FIELDS = ("prompt", "chosen", "rejected")
_MOST_CHARACTERS = 1 << 28  # of the text of a chat, as of a line
_MOST_STEPS = 1_000_000  # of the ranges of a text
_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")

_SAID = ("tool_calls", "function_call", "reasoning_content", "thinking")  # by a message, beside its content
_WEIGHTS = ("weight", "loss", "train", "training")  # of OpenAI, LLaMA-Factory and ms-swift, axolotl
_PARTS = "the content of a message is a list of parts, and the template takes texts: write their text alone"

Span = tuple[int, int]


class TemplateError(Exception):
    """A chat that the template refuses, or that it renders in no usable way."""


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template.

    Without a ``date`` the function ``strftime_now`` is not defined, because the same source must always give
    the same tokens. Templates then write the date that they have for this case.
    """

    source: str  # The Jinja program
    name: str  # Its name in the options of a dataset
    # Texts of special tokens by their names, such as ``bos_token``, which templates use
    tokens: Mapping[str, str]
    date: str | None = None  # Today in ISO 8601, for ``strftime_now``
    variables: Mapping[str, Any] = field(default_factory=dict)  # of all chats; those of a chat come first

    def __post_init__(self) -> None:
        _ = self._compiled  # refused before any sample

    def __reduce__(self) -> tuple[Any, ...]:  # each process compiles the template again
        return ChatTemplate, (self.source, self.name, self.tokens, self.date, self.variables)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any],
        *,
        prompts: bool = False,
        program: Any = None,
    ) -> str:
        """Return the text of a chat; with ``prompts``, up to the place where an answer is to begin."""
        said = [("tools", variables.get("tools"))]
        said += [(name, message.get(name)) for message in messages for name in _SAID]
        for name, present in said:
            if present and name not in self.source:
                raise TemplateError(f"the chat has {name}, which the template does not render")
        values = {"tools": None, **self.tokens, **self.variables, **variables}
        values |= {"messages": messages, "add_generation_prompt": prompts, "range": _limited_range()}
        pieces, room = [], _MOST_CHARACTERS
        try:
            for piece in (program or self._compiled).generate(values):
                pieces.append(piece)
                room -= len(piece)
                if room < 0:
                    raise TemplateError(f"the text has more than {_MOST_CHARACTERS:,} characters")
        except Exception as error:  # a program may fail in any way
            if any(isinstance(message.get("content"), (list, dict)) for message in messages):
                raise TemplateError(f"{_PARTS} ({error})") from error
            is_date = "strftime_now" in str(error) and self.date is None
            cure = ": fix the date with date='2025-01-31'" if is_date else ""
            raise TemplateError(f"{error or type(error).__name__}{cure}") from error
        if not is_unicode(text := "".join(pieces)):
            raise TemplateError("the text has half of a surrogate pair")
        if any(_is_garbled(message, text) for message in messages):
            raise TemplateError(_PARTS)
        return text

    def render_marked(
        self,
        messages: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any],
        numbers: Sequence[int] | None = None,
    ) -> tuple[str, list[Span]]:
        """Return the text of a chat, and the first and the end character of each part that has marks.

        The parts are what the template's blocks for answers write; or with ``numbers``, what its loops over
        messages write of each of these messages.
        """
        given = [self.source, dict(self.tokens), messages, variables, self.variables]
        present = json.dumps(given, ensure_ascii=False)
        begin, end, *_ = [*(mark for mark in _MARKS if mark not in present), "", ""]
        if not end:
            raise TemplateError("the chat has all characters that could mark its answers")
        marks = begin, end, [messages[number] for number in numbers or ()], [0]
        program = self._compiled if numbers is None else self._looped
        marked = self.render(messages, {**variables, _MARKS_OF_RENDER: marks}, program=program)
        return _split_marks(marked, begin, end)

    def render_answers(
        self, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any], numbers: Sequence[int]
    ) -> tuple[str, list[Span]]:
        """Return the text of a chat, and the span of each answer, from the end of its prompt to its own."""
        # Most templates render a chat as the beginning of every longer chat. An answer is then the text that
        # its message adds after the prompt for it.
        text, spans = self.render(messages, variables), []
        for number in numbers:
            begin = self.render(messages[:number], variables, prompts=True)
            end = self.render(messages[: number + 1], variables)
            if not (text.startswith(end) and end.startswith(begin)):
                return text, self._found_answers(text, messages, variables, numbers)
            spans.append((len(begin), len(end)))
        return text, spans

    def _found_answers(
        self,
        text: str,
        messages: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any],
        numbers: Sequence[int],
    ) -> list[Span]:
        """The spans of answers in the text of a template that renders a message otherwise before others."""
        # Templates of models that think drop earlier thoughts, or open a thought in the prompt that no answer
        # has. An answer begins where the text of its message and the prompt for it part.
        marked, spans = self.render_marked(messages, variables, numbers)
        spans = [(begin, end) for begin, end in spans if text[begin:end].strip()]
        before = [self.render(messages[:number], variables) for number in numbers]
        prompts = [self.render(messages[:number], variables, prompts=True) for number in numbers]
        if marked != text or len(spans) != len(numbers) or not all(map(str.startswith, prompts, before)):
            raise TemplateError(
                "later messages change the text before them, and no loop over messages writes the answers: "
                "put {% generation %} and {% endgeneration %} around them in the template, or train on all"
            )
        return [
            (begin + len(_common_start(prompt[len(earlier) :], text[begin:end])), end)
            for (begin, end), prompt, earlier in zip(spans, prompts, before, strict=True)
        ]

    @cached_property
    def marks_answers(self) -> bool:
        """Whether the template has a block for answers."""
        from jinja2 import nodes

        return self._tree.find(nodes.ExtensionAttribute) is not None

    @property
    def needed_tokens(self) -> set[str]:
        """Names of the special tokens that the template uses without asking whether there are such."""
        from jinja2 import meta, nodes

        tree = self._tree
        asked: list[Any] = [node.test for node in tree.find_all((nodes.If, nodes.CondExpr))]
        asked += [node for node in tree.find_all(nodes.Filter) if node.name in ("default", "d")]
        within = [name for node in asked for name in (node, *node.find_all(nodes.Name))]
        optional = {name.name for name in within if isinstance(name, nodes.Name)}
        return (meta.find_undeclared_variables(tree) & set(_SPECIAL)) - optional - self.variables.keys()

    @property
    def _tree(self) -> Any:
        return self._compiled.environment.parse(self.source)

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
        del environment.globals["lipsum"]  # which can take any time
        environment.globals["raise_exception"] = _raise
        if self.date is not None:
            environment.globals["strftime_now"] = datetime.fromisoformat(self.date).strftime
        try:
            return environment.from_string(self.source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise ConfigError(f"the chat template {self.name} is no Jinja program: {error}") from error

    @cached_property
    def _looped(self) -> Any:
        """The program with marks around what each loop writes of a message."""
        from jinja2 import nodes

        environment, tree = self._compiled.environment, self._tree
        environment.mark_message = _mark_message
        for loop in [loop for loop in tree.find_all(nodes.For) if isinstance(loop.target, nodes.Name)]:
            around = []
            for place in (0, 1):
                item = nodes.Name(loop.target.name, "load")
                arguments = [nodes.ContextReference(), item, nodes.Const(place)]
                call = nodes.Call(nodes.EnvironmentAttribute("mark_message"), arguments, [], None, None)
                around.append(nodes.Output([call]).set_lineno(loop.lineno))
            loop.body = [around[0], *loop.body, around[1]]
        return environment.from_string(tree)


def _limited_range() -> Callable[..., range]:
    """The function ``range`` of one text, whose loops end."""
    steps = 0

    def count(*numbers: int) -> range:
        nonlocal steps
        made = range(*numbers)
        steps += len(made)
        if steps > _MOST_STEPS:
            raise TemplateError(f"its ranges have more than {_MOST_STEPS:,} steps")
        return made

    return count


def _common_start(first: str, *others: str) -> str:
    if all(other.startswith(first) for other in others):
        return first
    return commonprefix((first, *others))  # noqa: RUF071 - of characters


def _mark_message(context: Any, item: Any, place: int) -> str:
    """The mark before (0) or after (1) a message in a loop, but not in loops inside of a marked message."""
    *marks, messages, depth = context[_MARKS_OF_RENDER]
    if not any(item is message for message in messages):
        return ""
    depth[0] += (1, -1)[place]
    return str(marks[place]) if depth[0] == (1, 0)[place] else ""


def _is_garbled(message: Mapping[str, Any], text: str) -> bool:
    """Whether a template has written the parts of a content as Python shows them, or has left them out."""
    content = message.get("content")
    if not isinstance(content, (list, dict)):
        return False
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    left_out = any(isinstance(part, str) and part.strip() not in text for part in parts)
    is_shown = str(content) in text and str(content) != json.dumps(content)
    return is_shown or (left_out and message["role"] != "assistant")  # thoughts may be left out


def find_template(training: Training, tokenizer: Tokenizer) -> ChatTemplate:
    """Return a chat template with the special tokens of a tokenizer; by default the tokenizer's template."""
    name_or_path = None if training.chat_template is None else str(training.chat_template)
    name, source = "tokenizer", tokenizer.settings.chat_template
    if name_or_path in _NAMED:
        name, source = name_or_path, _NAMED[name_or_path]
    elif name_or_path is not None:
        path = Path(name_or_path)
        try:
            name, source = path.name, read_regular(path).decode()
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
    tokens = {role: text for role, text in known.items() if text is not None}
    template = ChatTemplate(
        source, name, tokens, training.date, cast("dict[str, Any]", training.template_variables or {})
    )
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
            if _MARKS_OF_RENDER not in context:
                return str(caller())
            begin, end, *_ = context[_MARKS_OF_RENDER]
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
    """The text of a sequence of a sample."""

    text: str  # The text
    # First and end character of each part that a model is trained on, ascending; None for all
    spans: Sequence[Span] | None


@dataclass(frozen=True)
class ChatComposer:
    """Renders the messages of a chat with a template."""

    names: tuple[str, ...]  # Names of the values with the messages: one, or prompt and completion
    template: ChatTemplate  # The template
    train_on: str = "assistant"  # Of TrainOn, or the name of the completion
    adds_special_tokens: ClassVar[bool] = False  # the template has them
    holds_lock: ClassVar[bool] = True

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the sequences of a sample."""
        return self.names if len(self.names) == 1 else (JOINED,)

    @property
    def trains_all(self) -> bool:
        return self.train_on == "all"

    @property
    def options(self) -> dict[str, str]:
        template = self.template
        return {
            "train_on": self.train_on,
            "joined": "" if len(self.names) == 1 else ",".join(self.names),
            "chat_template": template.name,
            "template_digest": hashlib.sha256(template.source.encode()).hexdigest(),
            "template_date": template.date or "",
            "template_variables": json.dumps(template.variables) if template.variables else "",
        }

    def compose(self, values: tuple[Any, ...]) -> tuple[ComposedText, ...]:
        *parts, variables = values
        messages = [message for part in parts for message in part]
        if self.train_on == "all":
            if not all(map(_weight, messages)):
                raise TemplateError("a message has weight 0: train on 'assistant'")
            return (ComposedText(self.template.render(messages, variables), None),)
        if self.train_on not in get_args(TrainOn):
            if parts[1][: len(parts[0])] == parts[0]:
                raise TemplateError(
                    f"the completion repeats the prompt: give messages={self.names[1]!r} alone"
                )
            if not all(map(_weight, parts[1])):
                raise TemplateError("a message of the completion has weight 0: train on 'assistant'")
            prompt, (text,) = self.template_texts(parts[0], [parts[1]], variables)
            return (ComposedText(prompt + text, [(len(prompt), len(prompt) + len(text))]),)
        numbers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        answers = [messages[number] for number in numbers]
        last = slice(-1 if self.train_on == "last" else None, None)
        if self.template.marks_answers:
            text, spans = self.template.render_marked(messages, variables)
            return (ComposedText(text, _weighted(spans, answers, last)),)
        kept = _weighted(numbers, answers, last)
        return (ComposedText(*self.template.render_answers(messages, variables, kept)),)

    def template_texts(
        self, prompt: list[Any], completions: Sequence[list[Any]], variables: Mapping[str, Any]
    ) -> tuple[str, list[str]]:
        """The text of a prompt, and what each completion adds to it."""
        # Where a prompt opens what a completion does not have, both begin where the texts part, as in trl.
        is_open = prompt[-1]["role"] != "assistant"
        texts = [self.template.render([*prompt, *completion], variables) for completion in completions]
        begin = _common_start(self.template.render(prompt, variables, prompts=is_open), *texts)
        return begin, [text[len(begin) :] for text in texts]


class PairComposer(ChatComposer):
    """Renders a prompt and two answers to it, which stay separate sequences, for preference training."""

    @property
    def fields(self) -> tuple[str, ...]:
        return PAIR_FIELDS

    def compose(self, values: tuple[Any, ...]) -> tuple[ComposedText, ...]:
        *parts, variables = values
        chosen, rejected = parts[-2:]
        same = [one == other for one, other in zip(chosen, rejected, strict=False)]
        shared = [*same, False].index(False)
        if len(parts) == 2 or isinstance(parts[0], str):  # as in trl, a prompt of messages lies in both
            prompt, chosen, rejected = chosen[:shared], chosen[shared:], rejected[shared:]
        else:
            prompt = parts[0]
            if chosen[: len(prompt)] == prompt == rejected[: len(prompt)]:
                names = ",".join(self.names[1:])
                raise TemplateError(f"the answers repeat the prompt: give messages={names!r} alone")
        if not (prompt and chosen and rejected):
            raise TemplateError("chosen and rejected must be answers to one prompt")
        begin, texts = self.template_texts(prompt, [chosen, rejected], variables)
        return tuple(ComposedText(text, None) for text in (begin, *texts))


def _weight(message: Mapping[str, Any]) -> Any:
    """Whether a message is trained, by the ``weight`` of OpenAI's format or by the flags of other formats."""
    weight = next((message[name] for name in _WEIGHTS if name in message), 1)
    if weight not in (0, 1):
        raise TemplateError(f"the weight of a message must be 0 or 1, found {weight!r}")
    return weight


def _weighted(parts: list[Any], answers: Sequence[Mapping[str, Any]], which: slice) -> list[Any]:
    """The chosen parts of the answers but those whose message has weight 0."""
    weights = list(map(_weight, answers))
    if all(weights):
        return parts[which]
    if len(parts) != len(answers):
        raise TemplateError(f"messages have weights, and the template marks {len(parts)} of {len(answers)}")
    return [part for part, weight in list(zip(parts, weights, strict=True))[which] if weight]


@dataclass(frozen=True)
class FieldComposer:
    """Joins the texts of fields."""

    names: tuple[str, ...]  # Names of the fields
    trained: tuple[str, ...]  # Names of those that are trained
    layout: str | None = None  # The text that has the fields in braces; None puts one after the other
    adds_special_tokens: ClassVar[bool] = True
    trains_all: ClassVar[bool] = False
    holds_lock: ClassVar[bool] = False
    fields: ClassVar[tuple[str, ...]] = (JOINED,)

    def __post_init__(self) -> None:
        _ = self._pieces

    @property
    def options(self) -> dict[str, str]:
        trained = "all" if self.trained == self.names else ",".join(self.trained)
        return {"train_on": trained, "joined": ",".join(self.names), "layout": self.layout or ""}

    @cached_property
    def _pieces(self) -> list[tuple[str, str | None]]:
        """Texts, and the field after each of them."""
        if self.layout is None:
            return [("", name) for name in self.names]
        try:
            parsed = list(Formatter().parse(self.layout))
        except ValueError:
            parsed = []
        if sorted(name for _, name, *_ in parsed if name is not None) != sorted(self.names):
            fields = ", ".join(f"{{{name}}}" for name in self.names)
            raise ConfigError(f"layout must have {fields}, each once, found {self.layout!r}")
        return [(text, name) for text, name, *_ in parsed]

    def compose(self, values: tuple[Any, ...]) -> tuple[ComposedText, ...]:
        of_field, text, spans = dict(zip(self.names, values, strict=True)), "", []
        for before, name in self._pieces:
            text += before
            if name is not None:
                text, begin = text + of_field[name], len(text)
                spans += [(begin, len(text))] if name in self.trained else []
        return (ComposedText(text, spans),)


TextComposer = ChatComposer | FieldComposer
"""Makes the texts of the values of a sample, and knows the options of the dataset about it."""


def find_composer(
    fields: Sequence[str] | None, training: Training, tokenizer: Tokenizer
) -> TextComposer | None:
    """Return the composer that the arguments of a conversion ask for; None if fields stay separate."""
    train_on = training.train_on
    if training.messages is not None:
        if fields is not None:
            raise ConfigError("messages and fields both say what the text is", hint="Leave out one of them.")
        return _find_chat_composer(tuple(training.messages), training, tokenizer)
    if given := given_options(replace(training, train_on=None, layout=None)):
        raise ConfigError(
            f"{', '.join(given)} is for chats", hint="Name the value that has the messages with messages."
        )
    if train_on is None:
        if training.layout is not None:
            raise ConfigError("layout joins fields, of which train_on names those that are trained")
        return None
    names = tuple(fields or ())
    trained = tuple(name.strip() for name in train_on.split(","))
    if trained == ("all",) and "all" not in names:
        return FieldComposer(names or (JOINED,), names or (JOINED,), training.layout)
    if len(names) < 2 or not set(trained) < set(names):
        raise ConfigError(
            f"train_on must name some of several fields, or all, found {train_on!r} of {', '.join(names)}",
            hint="Give both: fields=('question', 'answer') and train_on='answer'; or messages for chats.",
        )
    return FieldComposer(names, trained, training.layout)


def _find_chat_composer(names: tuple[str, ...], training: Training, tokenizer: Tokenizer) -> ChatComposer:
    train_on = training.train_on
    if training.layout is not None:
        raise ConfigError("layout joins fields, and messages have a chat template")
    if {"chosen", "rejected"} <= set(names) and names[-2:] != PAIR_FIELDS[1:]:
        raise ConfigError(
            f"messages must end with chosen,rejected, found {','.join(names)}",
            hint="Give messages='prompt,chosen,rejected' or 'chosen,rejected'.",
        )
    if len(names) == 3 or names == PAIR_FIELDS[1:]:
        if train_on is not None:
            raise ConfigError("the answers of preference pairs are trained", hint="Leave out train_on.")
        return PairComposer(names, find_template(training, tokenizer), "all")
    allowed = (*get_args(TrainOn), *names[1:])
    default = names[1] if len(names) == 2 else "assistant"
    chosen: Any = one_of("train_on", default if train_on is None else train_on, allowed)
    return ChatComposer(names, find_template(training, tokenizer), chosen)


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
