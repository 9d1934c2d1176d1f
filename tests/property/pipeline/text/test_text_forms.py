"""Batches of text in every form, stopped anywhere and resumed on any number of ranks."""

from __future__ import annotations

import functools
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.chats import FOLDER, make_chats
from helpers.datasets import WORDS
from helpers.options import text_options
from helpers.shards import make, read_sequences, write_shards
from hypothesis import given, settings
from hypothesis import strategies as st

import stoker
from stoker.bucketing import MaskTokens, PreferencePairs, SpanCorruption

TOKENS = MaskTokens(0.3, mask_id=260, vocabulary=256)
SPANS = SpanCorruption(0.3, sentinels=range(300, 400), end_id=258)
LABELLED = ("input_ids", "labels", "row", "mask")
ANSWERS = PreferencePairs(end_id=258, outputs=("input_ids", "labels"))
PAIRS = {"fields": None, "batchify": ANSWERS, "columns": LABELLED}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "masked": ("texts", {"mask": TOKENS, "columns": LABELLED}),
    "masked and packed": ("texts", {"mask": TOKENS, "pack": 40, "columns": LABELLED}),
    "spans": ("texts", {"mask": SPANS, "columns": LABELLED}),
    "spans, packed": ("texts", {"mask": SPANS, "pack": (64, 40), "columns": LABELLED}),
    "fields, packed": (
        "texts",
        {"fields": ("q", "a"), "pack": (60, 20), "columns": ("q_input_ids", "a_labels", "row", "mask")},
    ),
    "seq2seq": (
        "texts",
        {
            "fields": ("q", "a"),
            "labels": "seq2seq",
            "columns": ("q_input_ids", "a_labels", "row", "mask"),
        },
    ),
    "streams": ("texts", {"stream": 7, "columns": ("input_ids", "row")}),
    "classes": ("reviews", {"fields": None, "columns": ("input_ids", "label", "row", "mask")}),
    "chats": ("chats", {"fields": None, "columns": LABELLED}),
    "chats, packed": ("chats", {"fields": None, "pack": 128, "columns": LABELLED}),
    "pairs": ("pairs", PAIRS),
    "pairs, packed": ("pairs", {**PAIRS, "pack": 72}),
}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Texts in two fields, reviews with classes, chats, and preference pairs."""
    pytest.importorskip("jinja2")
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("text")
    reviews = [{"text": "good " * (1 + i % 9), "stars": i * i % 5} for i in range(40)]
    answers = ("prompt", "ask", 4), ("chosen", "yes ", 3), ("rejected", "no", 7)
    pairs = [{name: text * (1 + i * 5 % period) for name, text, period in answers} for i in range(40)]
    options: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "reviews": (reviews, {"tokenizer": "bytes", "fields": ["text"], "label": "stars"}),
        "pairs": (pairs, {"tokenizer": "bytes", "fields": [name for name, *_ in answers]}),
        "chats": (make_chats(), {"tokenizer": FOLDER / "tokenizer.json", "messages": "messages"}),
    }
    for name, (samples, given_options) in options.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, samples)))
        stoker.convert_text(
            folder / f"{name}.jsonl", folder / name, **text_options({"tokenizer": WORDS, **given_options})
        )
    return {"texts": write_shards(folder), **{name: folder / name for name in options}}


def global_batches(loaders: list[Any], steps: int | None = None) -> list[Counter[Any]]:
    """For each step, the samples and the tokens of each row, without padding and padding rows.

    Streams have no such rows: each token counts, with its sample.
    """
    passes = [itertools.islice(loader, steps) for loader in loaders]
    lines = functools.partial(lines_of, pad_id=loaders[0].pad_id)
    return [Counter(itertools.chain(*map(lines, step))) for step in zip(*passes, strict=True)]


def lines_of(batch: Any, pad_id: int) -> Iterator[Any]:
    if "mask" not in batch._fields:
        yield from zip(batch.row.flat, batch.input_ids.flat, strict=True)
        return
    for i in np.flatnonzero(batch.mask).tolist():
        rows = tuple(row for row in np.atleast_1d(batch.row[i]).tolist() if row >= 0)
        # Of preference pairs line i is the chosen one of a pair, and line N + i the rejected one.
        lines = [np.atleast_1d(line) for each in batch[:-2] for line in each[i :: len(batch.mask)]]
        kept = [line[(line != pad_id) & (line != -100)] for line in lines]
        yield rows, tuple(tuple(line.tolist()) for line in kept)


@functools.cache
def whole(shards: Path, form: str) -> Counter[Any]:
    """The rows of an epoch on one rank; for streams every token of the dataset."""
    if form == "streams":
        return Counter((row, token) for row, (ids, _) in read_sequences(shards).items() for token in ids)
    found = sum(global_batches([make(shards, batch_size=4, **FORMS[form][1])]), Counter())
    assert sorted(row for rows, _ in found for row in rows) == list(range(len(stoker.open(shards))))
    return found


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=settings.default.max_examples // 16)
@given(ranks=st.permutations([1, 2, 3, 4]), stop=st.integers(1, 99))
def test_every_row_is_the_same_after_any_stop_on_any_number_of_ranks(
    datasets: dict[str, Path], form: str, ranks: list[int], stop: int
) -> None:
    name, options = FORMS[form]
    before, after, *_ = ranks
    first, second = (
        [make(datasets[name], batch_size=4, rank=rank, world_size=size, **options) for rank in range(size)]
        for size in (before, after)
    )
    parts = global_batches(first, stop % len(first[0]))
    for loader in second:
        loader.load_state_dict(first[0].state_dict())
    found = sum(parts + global_batches(second), Counter())
    left_out = whole(datasets[name], form) - found
    assert not found - whole(datasets[name], form), "a row is repeated or differs"
    # The last tokens of an epoch, at most as many as there are streams, are in no batch.
    assert left_out.total() <= (4 * max(before, after) if form == "streams" else 0)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=settings.default.max_examples // 16)
@given(ranks=st.permutations([1, 2, 3, 4, 6]), stop=st.integers(1, 99))
def test_global_batches_of_twelve_samples_are_the_same_on_any_number_of_ranks(
    datasets: dict[str, Path], form: str, ranks: list[int], stop: int
) -> None:
    """Three numbers of ranks follow each other in an epoch."""
    name, options = FORMS[form]
    found: list[Counter[Any]] = []
    state = None
    for size in ranks[:3]:
        loaders = [
            make(datasets[name], batch_size=12 // size, rank=rank, world_size=size, **options)
            for rank in range(size)
        ]
        if state is None:
            whole = global_batches(loaders)
            for loader in loaders:
                loader.set_epoch(0)
        else:
            for loader in loaders:
                loader.load_state_dict(state)
        found += global_batches(loaders, stop % (len(whole) // 2 + 1))
        state = loaders[0].state_dict()
        if state["epoch"]:
            break
    assert found == whole[: len(found)]
