"""Chats and joined fields: the tokens that a model is trained on, up to the labels of batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.chats import FOLDER, make_chats, make_pairs
from helpers.datasets import WORDS, write_words
from helpers.loaders import text_arguments
from helpers.options import convert_text

import stoker
from stoker.errors import ConfigError, SourceError

pytest.importorskip("jinja2")
pytest.importorskip("tokenizers")
pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

TOKENIZER = FOLDER / "tokenizer.json"
TRL = json.loads((FOLDER / "trl.json").read_text())
BATCHES: list[dict[str, Any]] = [
    {"batch_size": 5, "buckets": None},
    {"max_tokens": 256, "buckets": 3, "shuffle": True},
    {"batch_size": 2, "pack": 128},
]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("chats")
    (folder / "chats.jsonl").write_text("\n".join(map(json.dumps, make_chats())))
    pq.write_table(pa.Table.from_pylist(make_pairs()), folder / "pairs.parquet")
    fields = {"fields": ["prompt", "completion"], "train_on": "completion"}
    convert_text(folder / "chats.jsonl", folder / "chats", tokenizer=TOKENIZER, messages="messages")
    convert_text(folder / "pairs.parquet", folder / "pairs", tokenizer=TOKENIZER, **fields)
    return {name: folder / name for name in ("chats", "pairs")}


def sequences(loader: stoker.TextLoader) -> list[tuple[list[int], list[int]]]:
    """Token ids and labels of every sequence."""
    collected = []
    for ids, labels, segments in loader:
        for row in range(len(ids)):
            for number in range(1, segments[row].max() + 1):
                segment = segments[row] == number
                collected.append((ids[row][segment].tolist(), labels[row][segment].tolist()))
            assert (labels[row][segments[row] == 0] == -100).all()
    return collected


@pytest.mark.parametrize("options", BATCHES)
@pytest.mark.parametrize("name", ["chats", "pairs"])
def test_labels_equal_those_of_trl(datasets: dict[str, Path], name: str, options: dict[str, Any]) -> None:
    loader = stoker.TextLoader(
        datasets[name], **text_arguments(columns=("input_ids", "labels", "segment_ids"), **options)
    )
    expected = [(sample["input_ids"], sample["labels"]) for sample in TRL[name]]
    assert sorted(sequences(loader)) == sorted(expected)


def test_a_token_has_a_loss_weight_where_it_has_a_label(datasets: dict[str, Path]) -> None:
    loader = stoker.TextLoader(
        datasets["chats"], batch_size=2, pack=128, columns=("labels", "loss_weights", "segment_ids")
    )
    for labels, weights, _ in loader:
        assert ((weights > 0) == (labels != -100)).all()


def test_trained_tokens_of_a_sequence_share_a_weight_of_one() -> None:
    ragged = stoker.bucketing.Ragged(
        np.arange(7), np.array([0, 3, 7]), np.array([True, False, True, False, True, True, False])
    )
    pad = stoker.bucketing.Pad(outputs=("loss_weights",), loss_weights="sequences")
    assert pad(ragged)["loss_weights"].tolist() == [[0, 0, 1, 0], [0, 0.5, 0.5, 0]]


@pytest.mark.parametrize("train_on", ["last", "all"])
def test_the_last_answer_or_all_messages_are_trained(tmp_path: Path, train_on: str) -> None:
    convert_text(make_chats(), tmp_path / "d", tokenizer=TOKENIZER, messages="messages", train_on=train_on)
    loader = stoker.TextLoader(
        tmp_path / "d", batch_size=1, buckets=None, columns=("input_ids", "labels", "segment_ids")
    )
    for (ids, labels), expected in zip(sequences(loader), TRL["chats"], strict=True):
        assert ids == expected["input_ids"]
        if train_on == "all":
            assert labels == [-100, *ids[1:]]
        else:
            last = np.array(expected["labels"]) != -100
            last[: np.flatnonzero(np.diff(last.astype(int)) == 1)[-1]] = False
            assert labels == np.where(last, ids, -100).tolist()


def test_a_template_without_marks_trains_what_each_answer_adds(tmp_path: Path) -> None:
    template = tmp_path / "plain.jinja"
    template.write_text(
        "{% for m in messages %}{{ '<' + m.role + '>' + m.content + ';' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
    )
    chat = [
        {"role": "user", "content": "é?"},
        {"role": "assistant", "content": "ü!"},
        {"role": "user", "content": "ok"},
        {"role": "assistant", "content": "."},
    ]
    convert_text([{"m": chat}], tmp_path / "d", tokenizer="bytes", messages="m", chat_template=template)
    loader = stoker.TextLoader(tmp_path / "d", batch_size=1, columns=("input_ids", "labels"))
    (batch,) = loader
    assert bytes(batch.input_ids[0].tolist()).decode() == "<user>é?;<assistant>ü!;<user>ok;<assistant>.;"
    assert bytes(batch.labels[0][batch.labels[0] != -100].tolist()).decode() == "ü!;.;"


TEMPLATE = "{{ bos_token }} {{ messages[0].content }}"


@pytest.mark.parametrize(
    ("template", "settings", "frame", "expected"),
    [
        (TEMPLATE, None, "[BOS] $A", [2, 4]),  # the token that the tokenizer puts before texts
        (TEMPLATE, {"bos_token": "[PAD]"}, "[BOS] $A", [1, 4]),
        (TEMPLATE, {"bos_token": None}, "[BOS] $A", [4]),
        ("{% if bos_token %}{{ bos_token }}{% endif %} one", None, "$A", [4]),
        ("{{ bos_token | default('[EOS]') }} one", None, "$A", [3, 4]),
        ("{% set eos_token = '[PAD]' %}one {{ eos_token }}", None, "$A", [4, 1]),
        (TEMPLATE, None, "$A", "uses bos_token"),
        (TEMPLATE, None, "[BOS] [BOS] $A", "uses bos_token"),
        (
            "{% if messages %}one {{ eos_token }}{% endif %}",
            {"bos_token": "[BOS]"},
            "$A [EOS]",
            "uses eos_token",
        ),
    ],
)
def test_the_special_tokens_of_a_template_are_known_or_refused(
    tmp_path: Path, template: str, settings: dict[str, Any] | None, frame: str, expected: Any
) -> None:
    import tokenizers

    words = tokenizers.Tokenizer.from_file(str(write_words(tmp_path / "tokenizer.json", ("one",))))
    special = [("[BOS]", 2), ("[EOS]", 3)]
    words.post_processor = tokenizers.processors.TemplateProcessing(single=frame, special_tokens=special)
    words.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "own.jinja").write_text(template)
    if settings is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    options = {"tokenizer": tmp_path / "tokenizer.json", "chat_template": tmp_path / "own.jinja"}
    chats = [{"m": [{"role": "user", "content": "one"}]}]
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            convert_text(chats, tmp_path / "d", messages="m", train_on="all", **options)
        return
    convert_text(chats, tmp_path / "d", messages="m", train_on="all", **options)
    (batch,) = stoker.TextLoader(tmp_path / "d", batch_size=1)
    assert batch.input_ids[0].tolist() == expected


def test_the_trained_words_of_joined_fields_are_in_the_index(tmp_path: Path) -> None:
    pairs = [{"q": "one two ", "a": "three one"}, {"q": "four ", "a": " four five"}]
    convert_text(pairs, tmp_path / "d", fields=["q", "a"], train_on="a")
    dataset = stoker.open(tmp_path / "d")
    assert dataset.lists("text_trained", [0, 1]).values.tolist() == [2, 4, 1, 3]


def test_a_mixture_trains_in_each_dataset_what_that_dataset_trains(
    datasets: dict[str, Path], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"tokenizer": TOKENIZER, "messages": "messages"}
    convert_text(make_chats(), tmp_path / "all", **{"train_on": "all", "tokenizer": WORDS, **options})
    convert_text(make_chats(), tmp_path / "last", **{"train_on": "last", "tokenizer": WORDS, **options})
    with pytest.raises(ConfigError, match="which tokens a model is trained on"):  # one has all, one some
        stoker.mix([(datasets["chats"], 0.5), (tmp_path / "all", 0.5)])
    mixture = stoker.mix([(datasets["chats"], 0.5), (tmp_path / "last", 0.5)])
    loader = stoker.TextLoader(mixture, batch_size=4, columns=("labels", "lengths"))
    for labels, lengths in loader:
        assert ((labels != -100).sum(axis=1) < lengths - 5).all()


@pytest.mark.parametrize("too_long", ["truncate", "split"])
def test_pieces_of_a_sequence_keep_their_labels(datasets: dict[str, Path], too_long: Any) -> None:
    options: dict[str, Any] = {"batch_size": 3, "shuffle": False, "too_long": too_long}
    options |= {"max_length": 9} if too_long == "truncate" else {"pack": 9}
    loader = stoker.TextLoader(
        datasets["pairs"], **text_arguments(columns=("input_ids", "labels", "segment_ids"), **options)
    )
    whole = {tuple(sample["input_ids"]): sample["labels"] for sample in TRL["pairs"]}
    pieces = sequences(loader)
    assert any(len(ids) == 9 for ids, _ in pieces)
    for ids, labels in pieces:
        assert any(
            labels[1:] == expected[start + 1 : start + len(ids)]
            for sequence, expected in whole.items()
            for start in range(len(sequence))
            if list(sequence[start : start + len(ids)]) == ids
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"messages": "messages", "fields": ["messages"]}, "Leave out one"),
        ({"messages": "messages", "train_on": "user"}, "assistant, last, all"),
        ({"messages": "messages", "tokenizer": "bytes"}, "no chat template"),
        ({"messages": "messages", "chat_template": "none.jinja"}, "cannot be read"),
        ({"fields": ["prompt"], "train_on": "prompt"}, "several fields, or all"),
        ({"chat_template": "chatml"}, "chat_template is for chats"),
    ],
)
def test_contradicting_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        convert_text(make_chats(), tmp_path / "d", **options)


def test_chats_that_cannot_be_trained_are_skipped_and_counted_by_reason(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"m": [{"role": "user", "content": "a"}]},
        {"m": "text"},
        {"m": [{"content": "a"}]},
        {"m": [{"role": "user"}]},
        {"m": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    summary = convert_text(
        tmp_path / "t.jsonl",
        tmp_path / "d",
        tokenizer="bytes",
        messages="m",
        chat_template="chatml",
        allow_loss=1,
    )
    assert summary.written == 1
    assert summary.skipped == {
        "no trained tokens": 1,
        "no messages in 'm'": 1,
        "a message without a role in 'm'": 1,
        "refused by the chat template": 1,
    }


def show(folder: Path) -> list[str]:
    """The texts of a dataset of bytes."""
    loader = stoker.TextLoader(folder, batch_size=1, buckets=None)
    return [bytes(ids).decode() for batch in loader for ids in batch.input_ids.tolist()]


def write_rows(rows: list[dict[str, Any]], path: Path) -> Any:
    """Rows as a source of the form that the suffix of the path names."""
    if path.suffix == ".datasets":
        return pytest.importorskip("datasets").Dataset.from_list(rows)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("form", ["jsonl", "parquet", "datasets"])
def test_keys_that_other_rows_have_are_not_rendered(tmp_path: Path, form: str) -> None:
    # A table gives each call the keys of all others, at any depth, with null as their value.
    calls = [{"path": {"dir": "/"}}, {"lines": [{"from": 1}, {"to": 2}]}, {"values": [1, None]}]
    rows = [
        {"m": [{"role": "user", "calls": [call]}, {"role": "assistant", "content": "a"}]} for call in calls
    ]
    template = tmp_path / "calls.jinja"
    template.write_text("{% for m in messages %}{{ m.calls | tojson if m.calls else m.content }}{% endfor %}")
    source = write_rows(rows, tmp_path / f"t.{form}")
    convert_text(
        source, tmp_path / "d", tokenizer="bytes", messages="m", chat_template=template, train_on="all"
    )
    assert show(tmp_path / "d") == [json.dumps([call]) + "a" for call in calls]


TOOLED = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{{ mode }}"
    "{% for m in messages %}{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}"
)


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("form", ["jsonl", "parquet", "datasets"])
def test_tools_and_variables_of_a_chat_reach_its_template(tmp_path: Path, form: str, marks: bool) -> None:
    answer = "{% generation %}{{ m.content }}{% endgeneration %}" if marks else "{{ m.content }}"
    (tmp_path / "t.jinja").write_text(TOOLED.replace("{{ m.content }}", answer))
    tool = {"name": "clock", "parameters": {"zone": "text"}}
    chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "noon"}]
    rows = [
        {"m": chat, "tools": [tool], "chat_template_kwargs": {"mode": "!"}},
        {"m": chat, "tools": None, "chat_template_kwargs": None},
        {"m": chat, "tools": [{"name": "gong", "days": [1]}], "chat_template_kwargs": {"more": 1}},
    ]
    source = write_rows(rows, tmp_path / f"t.{form}")
    convert_text(source, tmp_path / "d", tokenizer="bytes", messages="m", chat_template=tmp_path / "t.jinja")
    assert show(tmp_path / "d") == [
        json.dumps([tool]) + "!?noon",
        "?noon",
        json.dumps([{"name": "gong", "days": [1]}]) + "?noon",
    ]


@pytest.mark.parametrize(
    ("values", "source", "reason"),
    [
        ({"tools": '[{"a": 1}]'}, TOOLED, None),
        ({"tools": "clock"}, TOOLED, "not JSON in 'tools'"),
        ({"tools": ["clock"]}, TOOLED, "no list of tools in 'tools'"),
        ({"chat_template_kwargs": [1]}, TOOLED, "no object in 'chat_template_kwargs'"),
        ({"tools": [{"a": 1}]}, "{{ messages }}", "refused by the chat template"),
        ({"tools": []}, "{{ messages }}", None),
        ({"calls": True}, "{{ messages[0].content }}", "refused by the chat template"),
    ],
)
def test_tools_that_would_be_lost_are_counted(
    tmp_path: Path, values: dict[str, Any], source: str, reason: str | None
) -> None:
    (tmp_path / "t.jinja").write_text(source)
    called = {"tool_calls": [{"name": "clock"}]} if values.get("calls") else {}
    rows = [
        {"m": [{"role": "user", "content": "a", **more}], **said}
        for more, said in (({}, {}), (called, values))
    ]
    options: dict[str, Any] = {"messages": "m", "chat_template": tmp_path / "t.jinja", "train_on": "all"}
    summary = convert_text(rows, tmp_path / "d", tokenizer="bytes", **options)
    assert summary.skipped == ({} if reason is None else {reason: 1})


@pytest.mark.parametrize("train_on", ["all", "last", "assistant"])
@pytest.mark.parametrize("template", ["chatml", "{% for m in messages %}{{ m.content }}{% endfor %}"])
def test_tools_that_a_template_ignores_are_counted_whatever_is_trained(
    tmp_path: Path, template: str, train_on: str
) -> None:
    (tmp_path / "t.jinja").write_text(template)
    options: dict[str, Any] = {"messages": "m", "train_on": train_on}
    options["chat_template"] = template if template == "chatml" else tmp_path / "t.jinja"
    rows = [{"m": talk("a", "b")}, {"m": talk("a", "b"), "tools": [{"a": 1}]}]
    summary = convert_text(rows, tmp_path / "d", tokenizer="bytes", **options)
    assert summary.skipped == {"refused by the chat template": 1}


@pytest.mark.parametrize(
    "template",
    [TOOLED, TOOLED.replace("{{ m.content }}", "{% generation %}{{ m.content }}{% endgeneration %}")],
)
@pytest.mark.parametrize("name", ["weight", "loss", "train", "training"])
def test_an_answer_of_weight_zero_is_not_trained(tmp_path: Path, template: str, name: str) -> None:
    (tmp_path / "t.jinja").write_text(template)
    weights = [[0, 1], [None, True], [1, 0.5]]
    rows = [
        {"m": [{"role": "assistant", "content": c, name: w} for c, w in zip("ab", two, strict=True)]}
        for two in weights
    ]
    options: dict[str, Any] = {"messages": "m", "chat_template": tmp_path / "t.jinja"}
    summary = convert_text(rows, tmp_path / "d", tokenizer="bytes", **options)
    assert summary.skipped == {"refused by the chat template": 1}
    assert stoker.open(tmp_path / "d").lists("m_trained", [0, 1]).values.tolist() == [1, 2, 0, 2]


BLOCKS = (
    "{% generation %}{{ m.content }}{% endgeneration %}",
    "{%+ generation %}{{ m.content }}{%+ endgeneration +%}",
    "{%-generation-%} {{ m.content }} {%-endgeneration-%}",
    "{% generation\n%}{{ m.content }}{% endgeneration %}{# generation #}",
    "{% set t %}{% generation %}{{ m.content }}{% endgeneration %}{% endset %}{{ t }}",
)


@pytest.mark.parametrize(
    "inside", ["{block}", "{{% macro show(m) %}}{block}{{% endmacro %}}{{{{ show(m) }}}}"]
)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("answer", ["yes", "\ufdd0yes\ufdd1", "\ufdd1\ufdd2\ufdd0", "{% generation %}"])
def test_answers_are_found_by_the_block_and_not_by_characters(
    tmp_path: Path, inside: str, block: str, answer: str
) -> None:
    block = inside.format(block=block)
    template = (
        "{% for m in messages %}{% if m.role == 'assistant' %}"
        + block
        + "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    (tmp_path / "t.jinja").write_text(template)
    asked = "{% generation %}\ufdd0\ufdd1?"
    chat = [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "!"},
    ]
    convert_text(
        [{"m": chat}], tmp_path / "d", tokenizer="bytes", messages="m", chat_template=tmp_path / "t.jinja"
    )
    assert show(tmp_path / "d") == [asked + answer + "!"]
    start = len(asked.encode())
    assert stoker.open(tmp_path / "d").lists("m_trained", [0]).values.tolist() == [
        start,
        start + len(answer.encode()),
    ]


def test_a_template_that_only_mentions_the_block_marks_no_answers(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{# {% generation %} #}{% for m in messages %}{{ m.content }}{% endfor %}")
    chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "yes"}]
    convert_text([{"m": chat}], tmp_path / "d", tokenizer="bytes", messages="m", chat_template=template)
    assert stoker.open(tmp_path / "d").lists("m_trained", [0]).values.tolist() == [1, 4]


def test_a_chat_with_every_character_for_marks_is_refused_by_the_template(tmp_path: Path) -> None:
    chats = [
        [{"role": "assistant", "content": text}] for text in ("a", "".join(map(chr, range(0xFDD0, 0xFDF0))))
    ]
    summary = convert_text(
        [{"m": chat} for chat in chats],
        tmp_path / "d",
        tokenizer="bytes",
        messages="m",
        chat_template="chatml",
    )
    assert summary.skipped == {"refused by the chat template": 1}


def talk(*contents: str, role: str = "user") -> list[dict[str, Any]]:
    """Messages of the user and the assistant in turns."""
    roles = ("user", "assistant") if role == "user" else ("assistant", "user")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(contents)]


# The last answer keeps its thoughts; the prompt for an answer opens one.
THINKS = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{{ '<' + m.role + '>' }}{% if m.why and loop.index0 > ns.last %}"
    "{{ '(' + m.why + ')' }}{% endif %}{{ m.content + ';' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>(' }}{% endif %}"
)


@pytest.mark.parametrize(
    ("train_on", "expected"), [("assistant", "b;(so)d;"), ("last", "(so)d;"), ("all", None)]
)
def test_answers_are_found_where_later_messages_drop_their_thoughts(
    tmp_path: Path, train_on: str, expected: str | None
) -> None:
    (tmp_path / "t.jinja").write_text(THINKS)
    chat = talk("a", "b", "c", "d")
    chat[1]["why"], chat[3]["why"] = "as", "so"
    options: dict[str, Any] = {"messages": "m", "chat_template": tmp_path / "t.jinja", "train_on": train_on}
    convert_text([{"m": chat}], tmp_path / "d", tokenizer="bytes", **options)
    assert show(tmp_path / "d") == ["<user>a;<assistant>b;<user>c;<assistant>(so)d;"]
    (batch,) = stoker.TextLoader(tmp_path / "d", batch_size=1, columns=("labels",))
    labels = batch.labels[0]
    if expected is not None:
        # The last answer begins after what the prompt opens, which it has, too.
        assert bytes(labels[labels != -100].tolist()).decode() == expected.replace("(so", "so")
    else:
        assert (labels[1:] != -100).all()


def test_answers_are_found_by_a_template_that_looks_ahead_in_a_loop(tmp_path: Path) -> None:
    # As in templates that end the last answer otherwise, and drop thoughts before a later answer.
    (tmp_path / "t.jinja").write_text(
        "{% for m in messages %}{% set ns = namespace(more=false) %}{% for later in messages[loop.index:] %}"
        "{% if later.role == 'assistant' %}{% set ns.more = true %}{% endif %}{% endfor %}"
        "{{ '<' + m.role + '>' + m.content + (';' if ns.more else '!') }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
    )
    options: dict[str, Any] = {"messages": "m", "chat_template": tmp_path / "t.jinja"}
    chat = talk("a", "b", "c", "d")
    convert_text([{"m": chat}], tmp_path / "d", tokenizer="bytes", **options)
    (batch,) = stoker.TextLoader(tmp_path / "d", batch_size=1, columns=("labels",))
    assert bytes(batch.labels[0][batch.labels[0] != -100].tolist()) == b"b;d!"


def test_answers_that_no_loop_writes_are_refused_with_the_cure(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages | length }}{{ messages | map(attribute='content') | join }}")
    options: dict[str, Any] = {"messages": "m", "chat_template": template, "tokenizer": "bytes"}
    with pytest.raises(SourceError, match=r"put {% generation %} and .* or train on all"):
        convert_text([{"m": talk("a", "b", "c", "d")}], tmp_path / "d", **options)


@pytest.mark.parametrize(
    "program",
    [
        "{{ 1 / 0 }}",
        "{{ 10.0 ** 400 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in range(999) %}{{ 'x' * 999999 }}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ lipsum(99999) }}",
    ],
)
def test_a_template_that_fails_or_never_ends_leaves_out_its_chats(tmp_path: Path, program: str) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{% if messages[0].content == 'bad' %}" + program + "{% endif %}good")
    chats = [{"m": talk("bad")}, {"m": talk("fine")}]
    options: dict[str, Any] = {"messages": "m", "chat_template": template, "train_on": "all"}
    summary = convert_text(chats, tmp_path / "d", tokenizer="bytes", **options)
    assert summary.skipped == {"refused by the chat template": 1}


def test_a_chat_that_is_nested_too_deep_is_left_out(tmp_path: Path) -> None:
    deep = json.dumps({"m": [{"role": "user", "content": "a", "more": "-"}]}).replace(
        '"-"', "[" * 700 + "]" * 700
    )
    (tmp_path / "t.jsonl").write_text(deep + "\n" + json.dumps({"m": talk("a", "b")}))
    options: dict[str, Any] = {"messages": "m", "chat_template": "chatml", "tokenizer": "bytes"}
    assert convert_text(tmp_path / "t.jsonl", tmp_path / "d", **options).skipped == {"nested too deep": 1}


def test_dates_and_variables_of_templates_are_fixed_by_arguments_and_kept(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{{ strftime_now('%d %b %Y') }} {{ mode }} {{ messages[0].content }}")
    options: dict[str, Any] = {"messages": "m", "chat_template": template, "train_on": "all"}
    with pytest.raises(SourceError, match="fix the date with date="):
        convert_text([{"m": talk("a")}], tmp_path / "d", tokenizer="bytes", **options)
    options |= {"date": "2025-01-31", "template_variables": '{"mode": "calm"}'}
    own = {"m": talk("b"), "chat_template_kwargs": {"mode": "wild"}}
    convert_text([{"m": talk("a")}, own], tmp_path / "d", tokenizer="bytes", **options)
    template.unlink()
    stoker.append(tmp_path / "d", [{"m": talk("c")}])
    assert show(tmp_path / "d") == ["31 Jan 2025 calm a", "31 Jan 2025 wild b", "31 Jan 2025 calm c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"date": "today"}, "date must be a date such as 2025-01-31, found 'today'"),
        ({"template_variables": {"messages": []}}, "must leave messages to the conversion"),
        ({"template_variables": "[1]"}, "values of JSON by name, found"),
        ({"template_variables": {"a": {1}}}, "values of JSON by name"),
        ({"messages": "a,a"}, "different names"),
        ({"messages": "chosen,rejected", "train_on": "all"}, "Leave out train_on"),
    ],
)
def test_options_of_templates_have_their_forms(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        convert_text([], tmp_path / "d", tokenizer="bytes", **{"messages": "m", **options})


SHAREGPT = [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
MARKED = "<|im_start|>{}\n{}<|im_end|>\n"


@pytest.mark.parametrize("form", ["jsonl", "parquet", "datasets"])
@pytest.mark.parametrize("as_text", [True, False])
def test_messages_of_sharegpt_are_read(tmp_path: Path, form: str, as_text: bool) -> None:
    row = {"m": json.dumps(SHAREGPT) if as_text else SHAREGPT}
    source = write_rows([row], tmp_path / f"t.{form}")
    convert_text(source, tmp_path / "d", tokenizer="bytes", messages="m", chat_template="chatml")
    (batch,) = stoker.TextLoader(tmp_path / "d", batch_size=1, columns=("input_ids", "labels"))
    text = "".join(chr(token) for token in batch.input_ids[0])
    assert text == "".join(map(MARKED.format, ("system", "user", "assistant"), "sab"))
    assert bytes(batch.labels[0][batch.labels[0] != -100].tolist()) == b"b<|im_end|>"


def test_a_reason_with_half_of_a_surrogate_pair_is_written(tmp_path: Path) -> None:
    rows = [{"m": talk("a", "b")}, {"m": [{"from": "\ud800", "value": "x"}]}]
    convert_text(rows, tmp_path / "d", tokenizer="bytes", messages="m", chat_template="chatml")
    (line,) = (tmp_path / "d" / "skipped.jsonl").read_text().splitlines()
    assert json.loads(line)["detail"] == "\ud800"


def test_messages_in_an_object_are_found_and_a_wrong_name_is_refused_with_the_others(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tokenizer": "bytes", "chat_template": "chatml"}
    source = write_rows([{"id": "x", "log": {"turns": talk("a", "b")}}], tmp_path / "t.jsonl")
    convert_text(source, tmp_path / "d", messages="log.turns", **options)
    assert stoker.open(tmp_path / "d").manifest.options["fields"] == "log.turns"
    with pytest.raises(SourceError, match=r"no field 'turns'.*(?s:.)Choose with messages= from: log"):
        convert_text(source, tmp_path / "new", messages="turns", **options)


def test_a_role_of_sharegpt_that_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="from neither human nor gpt in 'm': narrator"):
        convert_text(
            [{"m": [{"from": "narrator", "value": "x"}]}],
            tmp_path / "d",
            tokenizer="bytes",
            messages="m",
            chat_template="chatml",
        )


@pytest.mark.parametrize("template", ["chatml", THINKS])
@pytest.mark.parametrize("completion", [talk("b", role="assistant"), talk("b", role="assistant")[0]])
def test_a_completion_of_messages_is_trained_as_a_whole(
    tmp_path: Path, template: str, completion: Any
) -> None:
    if template != "chatml":
        (tmp_path / "t.jinja").write_text(template)
        template = str(tmp_path / "t.jinja")
    rows = [{"prompt": talk("a"), "completion": completion}]
    options: dict[str, Any] = {"messages": "prompt,completion", "chat_template": template}
    convert_text(rows, tmp_path / "d", tokenizer="bytes", **options)
    stoker.append(tmp_path / "d", [{"prompt": talk("c"), "completion": completion}])
    for batch in stoker.TextLoader(tmp_path / "d", batch_size=1, columns=("labels",), buckets=None):
        trained = bytes(batch.labels[0][batch.labels[0] != -100].tolist()).decode()
        assert trained == ("b;" if template.endswith("jinja") else "b<|im_end|>\n")


def test_a_completion_with_an_untrained_message_is_left_out(tmp_path: Path) -> None:
    completion = talk("b", "c", role="assistant")
    rows = [{"prompt": talk("a"), "completion": [{**completion[0], "weight": w}]} for w in (0, 1)]
    options: dict[str, Any] = {"messages": "prompt,completion", "chat_template": "chatml"}
    summary = convert_text(rows, tmp_path / "d", tokenizer="bytes", **options)
    assert summary.skipped == {"refused by the chat template": 1}
    convert_text(rows[1:], tmp_path / "all", tokenizer="bytes", train_on="assistant", **options)
    assert len(stoker.open(tmp_path / "all")) == 1


PROMPT, GOOD, BAD = talk("a"), talk("yes", role="assistant"), talk("no", role="assistant")


@pytest.mark.parametrize(
    ("messages", "row"),
    [
        ("prompt,chosen,rejected", {"prompt": PROMPT, "chosen": GOOD, "rejected": BAD}),
        ("prompt,chosen,rejected", {"prompt": "a", "chosen": PROMPT + GOOD, "rejected": PROMPT + BAD}),
        ("chosen,rejected", {"chosen": PROMPT + GOOD, "rejected": PROMPT + BAD}),
        ("asked,good,bad", {"asked": PROMPT, "good": GOOD[0], "bad": BAD[0]}),
    ],
)
@pytest.mark.parametrize("template", ["chatml", THINKS])
def test_preference_pairs_of_messages_have_a_prompt_and_two_answers(
    tmp_path: Path, messages: str, row: dict[str, Any], template: str
) -> None:
    if template != "chatml":
        (tmp_path / "t.jinja").write_text(template)
    chosen = template if template == "chatml" else tmp_path / "t.jinja"
    options: dict[str, Any] = {"messages": messages, "chat_template": chosen}
    convert_text([row], tmp_path / "d", tokenizer="bytes", **options)
    stoker.append(tmp_path / "d", [row, row])
    pairs = stoker.bucketing.PreferencePairs()
    ids, mask, completion = next(iter(stoker.TextLoader(tmp_path / "d", batch_size=3, batchify=pairs)))
    texts = [bytes(one[kept].tolist()).decode() for one, kept in zip(ids, mask.astype(bool), strict=True)]
    answers = [
        bytes(one[kept].tolist()).decode() for one, kept in zip(ids, completion.astype(bool), strict=True)
    ]
    if template == "chatml":
        whole = ["".join(map(MARKED.format, ("user", "assistant"), ("a", word))) for word in ("yes", "no")]
        assert answers == ["yes<|im_end|>\n"] * 3 + ["no<|im_end|>\n"] * 3
    else:
        whole = [f"<user>a;<assistant>{word};" for word in ("yes", "no")]
        assert answers == ["yes;"] * 3 + ["no;"] * 3
    assert texts == [whole[0]] * 3 + [whole[1]] * 3


@pytest.mark.parametrize(
    ("messages", "row", "message"),
    [
        ("chosen,rejected", {"chosen": PROMPT, "rejected": PROMPT + BAD}, "answers to one prompt"),
        ("chosen,rejected", {"chosen": GOOD, "rejected": BAD}, "answers to one prompt"),
        (
            None,
            {"prompt": "a", "chosen": PROMPT + GOOD},
            "no text in field 'chosen', but messages: give messages= in place of",
        ),
    ],
)
def test_answers_without_a_common_prompt_are_refused(
    tmp_path: Path, messages: str | None, row: dict[str, Any], message: str
) -> None:
    options: dict[str, Any] = {"fields": ["prompt", "chosen"]}
    if messages is not None:
        options = {"messages": messages, "chat_template": "chatml"}
    (tmp_path / "t.jsonl").write_text(json.dumps(row))
    with pytest.raises(SourceError, match=message):
        convert_text(tmp_path / "t.jsonl", tmp_path / "d", tokenizer="bytes", **options)


@pytest.mark.parametrize("messages", ["rejected,chosen", "prompt,rejected,chosen", "chosen,rejected,prompt"])
def test_preference_pairs_in_another_order_are_refused(tmp_path: Path, messages: str) -> None:
    row = {"prompt": PROMPT, "chosen": PROMPT + GOOD, "rejected": PROMPT + BAD}
    options: dict[str, Any] = {"messages": messages, "chat_template": "chatml", "tokenizer": "bytes"}
    with pytest.raises(ConfigError, match="must end with chosen,rejected, found"):
        convert_text([row], tmp_path / "d", **options)


WITH_WEIGHT = [talk("a")[0], {**GOOD[0], "weight": 0}]
PARTS = [{"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    ("messages", "row", "message"),
    [
        (
            "prompt,chosen,rejected",
            {"prompt": PROMPT, "chosen": PROMPT + GOOD, "rejected": PROMPT + BAD},
            "the answers repeat the prompt: give messages='chosen,rejected' alone",
        ),
        (
            "prompt,completion",
            {"prompt": PROMPT, "completion": PROMPT + GOOD},
            "the completion repeats the prompt: give messages='completion' alone",
        ),
        ("m", {"m": [{"role": "user", "content": PARTS}, *GOOD]}, "is a list of parts"),
        ("m", {"m": [*PROMPT, {"role": "tool", "content": [{"text": "x"}]}, *GOOD]}, "is a list of parts"),
        ("m", {"m": [*PROMPT, {**GOOD[0], "reasoning_content": "so"}]}, "the chat has reasoning_content, "),
        ("m", {"m": [*PROMPT, {**GOOD[0], "function_call": {"name": "f"}}]}, "the chat has function_call, "),
    ],
)
@pytest.mark.parametrize(
    "template",
    [
        "chatml",
        "{% for m in messages %}{{ m.content | trim }};{% endfor %}",
        "{% for m in messages %}{{ m.content if m.content is string else '' }};{% endfor %}",
    ],
)
def test_chats_that_a_template_would_garble_are_refused(
    tmp_path: Path, messages: str, row: dict[str, Any], message: str, template: str
) -> None:
    (tmp_path / "t.jinja").write_text(template)
    options: dict[str, Any] = {"messages": messages, "tokenizer": "bytes"}
    options["chat_template"] = "chatml" if template == "chatml" else tmp_path / "t.jinja"
    with pytest.raises(SourceError, match=message):
        convert_text([row], tmp_path / "d", **options)


@pytest.mark.parametrize("kind", ["user", "tool"])
def test_parts_that_a_template_renders_are_read(tmp_path: Path, kind: str) -> None:
    part = (
        "{% for p in m.content %}{{ p.text | trim }}{% endfor %}"
        if kind == "user"
        else "{{ m.content | tojson }}"
    )
    body = f"{{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}{part}{{% endif %}}"
    source = f"{{% for m in messages %}}{body}{{% endfor %}}"
    (tmp_path / "t.jinja").write_text(source)
    content = [{"type": "text", "text": " a "}] if kind == "user" else {"a": [1, 2]}
    row = {"m": [{"role": kind, "content": content}, *GOOD]}
    convert_text([row], tmp_path / "d", messages="m", chat_template=tmp_path / "t.jinja", tokenizer="bytes")
    (batch,) = stoker.TextLoader(tmp_path / "d", batch_size=1, columns=("input_ids",), buckets=None)
    assert bytes(batch.input_ids[0].tolist()).decode() == ("ayes" if kind == "user" else '{"a": [1, 2]}yes')


@pytest.mark.parametrize("train_on", ["last", "all"])
@pytest.mark.parametrize("template", [TOOLED, "chatml"])
def test_no_other_message_is_trained_in_place_of_one_of_weight_zero(
    tmp_path: Path, train_on: str, template: str
) -> None:
    (tmp_path / "t.jinja").write_text(template)
    options: dict[str, Any] = {"messages": "m", "train_on": train_on, "tokenizer": "bytes"}
    options["chat_template"] = template if template == "chatml" else tmp_path / "t.jinja"
    rows = [{"m": talk("a", "b") + WITH_WEIGHT}, {"m": talk("a", "b")}]
    assert convert_text(rows, tmp_path / "d", **options).written == 1


@pytest.mark.parametrize("form", ["jsonl", "parquet", "rows"])
def test_a_system_prompt_beside_the_messages_comes_first(tmp_path: Path, form: str) -> None:
    rows = [
        {"system": "s", "m": talk("a", "b")},
        {"system": None, "m": talk("a", "b")},
        {"system": "s", "m": [{"role": "system", "content": "own"}, *talk("a", "b")]},
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    source: Any = rows if form == "rows" else tmp_path / f"t.{form}"
    convert_text(source, tmp_path / "d", messages="m", chat_template="chatml", tokenizer="bytes")
    loader = stoker.TextLoader(tmp_path / "d", batch_size=1, columns=("input_ids",), buckets=None)
    texts = [bytes(batch.input_ids[0].tolist()).decode() for batch in loader]
    asked = "".join(map(MARKED.format, ("user", "assistant"), "ab"))
    assert texts == [
        f"{system}{asked}" for system in (MARKED.format("system", "s"), "", MARKED.format("system", "own"))
    ]


@pytest.mark.parametrize("chats_first", [True, False])
def test_chats_are_mixed_with_plain_text(tmp_path: Path, chats_first: bool) -> None:
    options: dict[str, Any] = {"messages": "m", "chat_template": "chatml", "tokenizer": "bytes"}
    convert_text([{"m": talk("a", "b")}], tmp_path / "m", **options)
    plain: dict[str, Any] = {"fields": ["body"], "tokenizer": "bytes"}
    convert_text([{"body": "three"}, {"body": "four"}], tmp_path / "t", train_on="all", **plain)
    folders = [tmp_path / "m", tmp_path / "t"][:: 1 if chats_first else -1]
    mixture = stoker.mix([(folder, 0.5) for folder in folders], samples=4)
    for rows in ({"batch_size": 4, "buckets": None}, {"batch_size": 2, "pack": 64}):
        loader = stoker.TextLoader(mixture, columns=("input_ids", "labels"), **rows)
        labels = np.concatenate([batch.labels.reshape(-1) for batch in loader])
        trained = bytes(labels[labels != -100].tolist()).decode()
        words = trained.replace("b<|im_end|>", " b ").replace("hree", " hree ").split()
        assert sorted(words) == ["b", "b", "hree", "our"]
    convert_text([{"body": "three"}], tmp_path / "other", **plain)
    with pytest.raises(ConfigError, match="differ in list of fields"):
        stoker.mix([(tmp_path / "m", 0.5), (tmp_path / "other", 0.5)])


def test_plain_text_is_mixed_with_trained_answers(tmp_path: Path) -> None:
    pairs, plain = [{"q": "one ", "a": "two"}], [{"text": "three"}]
    convert_text(pairs, tmp_path / "sft", fields=["q", "a"], train_on="a", tokenizer="bytes")
    convert_text(plain, tmp_path / "replay", fields=["text"], train_on="all", tokenizer="bytes")
    stoker.append(tmp_path / "replay", [{"text": "four"}])
    mixture = stoker.mix([(tmp_path / "sft", 0.5), (tmp_path / "replay", 0.5)], samples=4)
    loader = stoker.TextLoader(mixture, batch_size=4, columns=("input_ids", "labels"), buckets=None)
    kept = {bytes(ids[labels != -100].tolist()) for ids, labels in zip(*next(iter(loader)), strict=True)}
    assert kept == {b"two", b"hree", b"our"}


@pytest.mark.parametrize(
    ("layout", "expected"),
    [(None, "onetwo"), ("{q} -> {a}.", "one -> two."), ("{{}} {a}|{q}", "{} two|one")],
)
def test_a_layout_joins_fields_and_trains_the_answer_alone(
    tmp_path: Path, layout: str | None, expected: str
) -> None:
    options: dict[str, Any] = {"fields": ["q", "a"], "train_on": "a", "layout": layout}
    convert_text([{"q": "one", "a": "two"}], tmp_path / "d", tokenizer="bytes", **options)
    stoker.append(tmp_path / "d", [{"q": "one", "a": "six"}])
    assert show(tmp_path / "d") == [expected, expected.replace("two", "six")]
    begin = expected.index("two")
    assert stoker.open(tmp_path / "d").lists("text_trained", [0]).values.tolist() == [begin, begin + 3]


@pytest.mark.parametrize("layout", ["{q}", "{q}{a}{a}", "{q}{b}", "{q}{a", "{}{a}"])
def test_a_layout_has_every_field_once(tmp_path: Path, layout: str) -> None:
    options: dict[str, Any] = {"fields": ["q", "a"], "train_on": "a", "layout": layout}
    with pytest.raises(ConfigError, match=r"layout must have \{q\}, \{a\}, each once"):
        convert_text([], tmp_path / "d", tokenizer="bytes", **options)
