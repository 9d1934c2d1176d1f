"""The sequences of a batch of text, decoded, for a replay."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..preview.decoding import dataset_decoder
from ..preview.page import html_page
from ..text.config import TextLoaderConfig
from ..text.schedule import TextSchedule

_STYLE = "th { text-align: left } td { vertical-align: top; padding: 4px 12px 4px 0; white-space: pre-wrap }"


@dataclass(frozen=True)
class ShownSequence:
    """A sequence of a batch."""

    line: int  # Number of its row in the batch
    row: int  # Position of the sample in the loader's dataset
    key: str  # Name of the sample in its source
    first: int  # First of its tokens in the sample
    tokens: int  # Number of its tokens
    fields: dict[str, str]  # Its text by the name of the field


def read_texts(config: TextLoaderConfig, schedule: TextSchedule, epoch: int) -> list[ShownSequence]:
    """Read and decode the sequences of the first batch of a schedule."""
    slices = schedule.slices(config.planner.epoch(epoch), [schedule.batch(0)], 0)
    sequences = config.reader.read(slices, config.reader.locate(slices.positions))
    decode = dataset_decoder(config.dataset.datasets[0])
    n = len(slices.positions)
    line = np.arange(n)
    if slices.groups is not None:
        line = np.repeat(np.arange(len(slices.groups) - 1), np.diff(slices.groups))
    keys = config.dataset.keys(slices.positions)
    return [
        ShownSequence(
            int(line[i]),
            int(slices.positions[i]),
            keys[i],
            int(slices.begins[i]),
            int(slices.lengths[i].sum()),
            {
                name: decode(field_sequences[i].tolist())
                for name, field_sequences in zip(config.reader.fields, sequences, strict=True)
            },
        )
        for i in range(n)
    ]


def text_page(title: str, facts: Sequence[str], texts: Sequence[ShownSequence]) -> str:
    """The sequences as a page of HTML, which refers to no other file."""
    names = list(texts[0].fields) if texts else []
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in ("row", "sample", "tokens", *names))
    lines = "\n".join(map(_line, texts))
    body = f"<main><table><tr>{heads}</tr>\n{lines}\n</table></main>"
    return html_page(title, _STYLE, facts, "", body)


def _line(sequence: ShownSequence) -> str:
    tokens = f"{sequence.first} to {sequence.first + sequence.tokens - 1}"
    cells = [str(sequence.line), sequence.key, tokens, *sequence.fields.values()]
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
