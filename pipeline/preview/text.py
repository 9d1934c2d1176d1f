"""The preview of a dataset of text as a self-contained HTML page: the texts of samples, and a packed row.

Trained tokens are marked, and the packed row is shown as a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stoker.bucketing import pack
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset
from stoker.formats.token_columns import length_column, trained_column
from stoker.formats.tokenization import make_decoder

from ..order.schedule import PlannedSteps
from ..text.text_pipeline import TextPipeline
from .page import html_page, spread_positions

_STYLE = """
section { max-width: 860px; padding: 16px 0; border-top: 1px solid var(--rule); }
h2 { margin: 0 0 6px; font-size: 13px; font-weight: 500; color: var(--grey); overflow-wrap: anywhere; }
h2 b { color: var(--ink); font-weight: 600; }
.text { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { background: #ffe08a; color: #1d1d1f; border-radius: 3px; padding: 1px 0; }
.bar { display: flex; height: 18px; margin: 10px 0 14px; border-radius: 6px; overflow: hidden;
  background: var(--rule); }
.bar i { display: block; border-right: 1px solid var(--paper); }
.segment { border-left: 5px solid; padding-left: 12px; margin: 0 0 14px; }
"""
_TABLE_STYLE = (
    "th { text-align: left } td { vertical-align: top; padding: 4px 12px 4px 0; white-space: pre-wrap }"
)
_HUES = 137  # degrees between the colours of two segments


def dataset_decoder(dataset: Dataset) -> Callable[[Sequence[int]], str]:
    """Return a function that makes the text of token ids of a dataset, with the dataset's tokenizer."""
    has_file = dataset.manifest.options.get("tokenizer_digest")
    return make_decoder(dataset.tokenizer_file() if has_file else None)


@dataclass(frozen=True)
class Passage:
    """A piece of a text."""

    text: str  # The piece
    trained: bool  # Whether a model is trained on it
    tokens: int  # Its number of tokens


@dataclass(frozen=True)
class ShownDocument:
    """A field of a sample."""

    key: str  # Name of the sample
    field: str  # Name of the field
    label: str  # Name or number of the class; empty if there is none
    passages: tuple[Passage, ...]  # The text in pieces

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.passages)


@dataclass(frozen=True)
class ShownRow:
    """A packed row of an epoch."""

    length: int  # Tokens that the row holds
    segments: tuple[ShownDocument, ...]  # Its sequences, in their order

    @property
    def description(self) -> str:
        """Its segments and its fill, in words."""
        filled = sum(one.tokens for one in self.segments)
        segments = f"{len(self.segments)} segments, {filled / self.length:.1%} filled"
        return f"a packed row of {self.length:,} tokens: {segments}"


@dataclass(frozen=True)
class TextPreview:
    """A preview of text."""

    title: str  # Name of the dataset
    lines: tuple[str, ...]  # Lines below the title
    samples: tuple[ShownDocument, ...]  # Fields of samples
    row: ShownRow | None  # A packed row; None without packing
    marks_trained: bool  # Whether only some tokens are trained


def preview_text(
    dataset: str | Path,
    out: str | Path | None = None,
    *,
    samples: int = 6,
    positions: Sequence[int] | None = None,
    pack_length: int | None = None,
    seed: int = 0,
) -> TextPreview:
    """Return the texts of some samples, and write them as a page."""
    if out is not None and Path(out).suffix != ".html":
        raise ConfigError(f"the preview of text is a page: out must end in .html, found {str(out)!r}")
    opened = open_dataset(dataset)
    chosen = spread_positions(len(opened), samples, positions, path=opened.path)
    documents = _Documents(opened)
    row = None if pack_length is None else documents.packed_row(pack_length, seed)
    samples_shown = tuple(field for position in chosen for field in documents.of_sample(position))
    shown = TextPreview(
        opened.path.resolve().name, documents.lines(), samples_shown, row, documents.marks_trained
    )
    if out is not None:
        Path(out).write_text(_render(shown), "utf-8")
    return shown


class _Documents:
    """The decoded samples of a dataset."""

    def __init__(self, dataset: Dataset) -> None:
        options = dataset.manifest.options
        self._dataset = dataset
        self._fields = str(options["fields"]).split(",")
        self._dtype = np.dtype(str(options["dtype"])).newbyteorder("<")
        self._decode = dataset_decoder(dataset)
        self.marks_trained = any(trained_column(field) in dataset.types for field in self._fields)

    def lines(self) -> tuple[str, ...]:
        """Lines with the contents of the dataset."""
        tokens = {name: int(self._dataset.column(length_column(name)).sum()) for name in self._fields}
        parts = [f"{count:,} tokens of {name}" for name, count in tokens.items()]
        return (f"{len(self._dataset):,} samples, {', '.join(parts)}",)

    def of_sample(self, position: int, most: int | None = None) -> list[ShownDocument]:
        """The fields of a sample, with ``most`` tokens of each or all."""
        dataset = self._dataset
        ids = np.frombuffer(dataset.read(position), self._dtype)
        lengths = [int(dataset.values(length_column(name), [position])[0]) for name in self._fields]
        parts = np.split(ids, np.cumsum(lengths)[:-1])
        key, label = dataset.keys([position])[0], ""
        if "label" in dataset.types:
            number = int(dataset.values("label", [position])[0])
            label = dataset.classes[number] if dataset.classes else str(number)
        return [
            ShownDocument(key, name, label, self._passages(name, position, part[:most]))
            for name, part in zip(self._fields, parts, strict=True)
        ]

    def _passages(self, field: str, position: int, ids: npt.NDArray[np.int32]) -> tuple[Passage, ...]:
        """A text in pieces: the tokens of each are all trained, or all not."""
        name = trained_column(field)
        if name not in self._dataset.types:
            return (Passage(self._decode(ids.tolist()), not self.marks_trained, len(ids)),)
        edges = self._dataset.lists(name, [position]).values.clip(max=len(ids)).tolist()
        return tuple(
            Passage(self._decode(ids[a:b].tolist()), bool(number % 2), b - a)
            for number, (a, b) in enumerate(pairwise([0, *edges, len(ids)]))
            if b > a
        )

    def packed_row(self, length: int, seed: int) -> ShownRow:
        """A packed row of epoch 0 of the first field, with the median number of sequences."""
        field = self._fields[0]
        lengths = self._dataset.column(length_column(field)).astype(np.int64)
        plan = pack(lengths, length, seed=seed, epoch=0, too_long="truncate")
        order = np.argsort(np.diff(plan.offsets), kind="stable")
        pieces = plan.pieces(int(order[len(order) // 2]))
        drawn = zip(plan.rows[pieces].tolist(), plan.lengths[pieces].tolist(), strict=True)
        return ShownRow(length, tuple(self.of_sample(row, tokens)[0] for row, tokens in drawn))


def _render(shown: TextPreview) -> str:
    """The shown as HTML, which refers to no other file."""
    more = "<p>A model is trained on the <mark>marked</mark> tokens.</p>" if shown.marks_trained else ""
    samples = "\n".join(
        f"<section>{_heading(text)}{_text(text.passages, marks=shown.marks_trained)}</section>"
        for text in shown.samples
    )
    row = "" if shown.row is None else _packed(shown.row, marks=shown.marks_trained)
    return html_page(shown.title, _STYLE, shown.lines, more, f"<main>\n{samples}\n{row}\n</main>")


def _heading(text: ShownDocument) -> str:
    label = f", {escape(text.label)}" if text.label else ""
    return f"<h2><b>{escape(text.key)}</b> {escape(text.field)}{label}, {text.tokens:,} tokens</h2>"


def _text(passages: Iterable[Passage], *, marks: bool) -> str:
    pieces = (
        f"<mark>{escape(passage.text)}</mark>" if marks and passage.trained else escape(passage.text)
        for passage in passages
    )
    return f'<p class="text">{"".join(pieces)}</p>'


def _packed(row: ShownRow, *, marks: bool) -> str:
    """The row as a bar with a part for each segment, and the segments below it."""
    parts, texts = [], []
    for number, segment in enumerate(row.segments):
        color = f"hsl({number * _HUES % 360} 60% 55%)"
        parts.append(
            f'<i style="width:{100 * segment.tokens / row.length:.2f}%;background:{color}" '
            f'title="{escape(segment.key)}: {segment.tokens} tokens"></i>'
        )
        text = f"{_heading(segment)}{_text(segment.passages, marks=marks)}"
        texts.append(f'<div class="segment" style="border-color:{color}">{text}</div>')
    heading = f"<h2><b>{escape(row.description)}</b></h2>"
    return f'<section>{heading}<div class="bar">{"".join(parts)}</div>{"".join(texts)}</section>'


@dataclass(frozen=True)
class ShownSequence:
    """A sequence of a batch."""

    line: int  # Number of its row in the batch
    row: int  # Position of the sample in the loader's dataset
    key: str  # Name of the sample in its source
    first: int  # First of its tokens in the sample
    tokens: int  # Number of its tokens
    fields: dict[str, str]  # Its text by the name of the field


def read_texts(pipeline: TextPipeline, steps: PlannedSteps) -> list[ShownSequence]:
    """Read and decode the sequences of the first batch of some steps."""
    config = pipeline.config
    slices = pipeline.slices(config.planner.epoch_of(steps.plan), steps, [steps.batch(0)], 0)
    sequences = config.reader.read(slices, config.reader.locate(slices.positions))
    decode = dataset_decoder(config.dataset.datasets[0])
    n = len(slices.positions)
    line = np.arange(n)
    if slices.groups is not None:
        line = np.repeat(np.arange(len(slices.groups) - 1), np.diff(slices.groups))
    keys = config.dataset.keys(slices.positions)
    fields, found = config.reader.fields, []
    for i in range(n):
        texts = {name: decode(ids[i].tolist()) for name, ids in zip(fields, sequences, strict=True)}
        row, first, tokens = slices.positions[i], slices.begins[i], slices.lengths[i].sum()
        found.append(ShownSequence(int(line[i]), int(row), keys[i], int(first), int(tokens), texts))
    return found


def text_page(title: str, lines: Sequence[str], texts: Sequence[ShownSequence]) -> str:
    """The sequences as a page of HTML, which refers to no other file."""
    rows = [("row", "sample", "tokens", *(texts[0].fields if texts else ()))]
    for one in texts:
        tokens = f"{one.first} to {one.first + one.tokens - 1}"
        rows.append((str(one.line), one.key, tokens, *one.fields.values()))
    cells = (
        "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
        for row, tag in zip(rows, ["th", *["td"] * len(texts)], strict=True)
    )
    table = "\n".join(f"<tr>{row}</tr>" for row in cells)
    return html_page(title, _TABLE_STYLE, lines, "", f"<main><table>{table}</table></main>")
