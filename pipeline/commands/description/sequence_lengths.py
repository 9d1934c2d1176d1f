"""Numbers of tokens of texts or captions, for ``stoker info``: their sum, percentiles and the longest."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.formats.dataset.dataset import Dataset
from stoker.formats.text.records import length_column, trained_column
from stoker.formats.tokenization.captions import LENGTHS_COLUMN

_PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class _Lengths:
    """The tokens of one field."""

    tokens: int  # Tokens of all samples
    percentiles: dict[int, int]  # Length that this percentage of the samples do not exceed
    longest: int  # Largest number of tokens of a sample
    longest_key: str  # Key of the first sample with so many
    trained: int | None  # Tokens that a model is trained on; None if it is trained on all


def _lengths_of(dataset: Dataset) -> dict[str, _Lengths]:
    if dataset.manifest.sample_type != "text" or not len(dataset):
        return {}
    return {
        field: _lengths(dataset, field)
        for field in str(dataset.manifest.options.get("fields", "")).split(",")
    }


def _lengths(dataset: Dataset, field: str) -> _Lengths:
    lengths = dataset.column(length_column(field)).astype(np.int64)
    longest = int(lengths.argmax())
    trained = None
    if trained_column(field) in dataset.columns:
        runs = dataset.lists(trained_column(field), np.arange(len(dataset))).values.astype(np.int64)
        trained = int((runs[1::2] - runs[::2]).sum())
    return _Lengths(
        int(lengths.sum()), _percentiles(lengths), int(lengths[longest]), dataset.keys([longest])[0], trained
    )


def _percentiles(lengths: npt.NDArray[Any]) -> dict[int, int]:
    """The smallest length that this percentage of the samples do not exceed, and that a sample has."""
    values = np.percentile(lengths, _PERCENTILES, method="inverted_cdf").tolist()
    return dict(zip(_PERCENTILES, map(int, values), strict=True))


def _in_words(percentiles: dict[int, int]) -> str:
    return ", ".join(f"{percent} % up to {length:,}" for percent, length in percentiles.items())


def length_facts(dataset: Dataset) -> list[tuple[str, str]]:
    """Return name and value of each fact; nothing for images without captions."""
    rows = []
    for field, lengths in _lengths_of(dataset).items():
        longest = f"longest {lengths.longest:,} ({lengths.longest_key})"
        rows.append((f"tokens, {field}", f"{lengths.tokens:,}: {_in_words(lengths.percentiles)}, {longest}"))
        if lengths.trained is not None:
            share = lengths.trained / lengths.tokens
            rows.append((f"trained, {field}", f"{lengths.trained:,}, {share:.1%} of the tokens"))
    return rows + _caption_facts(dataset)


def _caption_facts(dataset: Dataset) -> list[tuple[str, str]]:
    """Return what is known of the captions beside images; nothing without captions."""
    if LENGTHS_COLUMN not in dataset.columns or not len(dataset):
        return []
    lengths = dataset.lists(LENGTHS_COLUMN, np.arange(len(dataset))).values
    shares, longest = _in_words(_percentiles(lengths)), int(lengths.max())
    return [("captions", f"{len(lengths):,} of {int(lengths.sum()):,} tokens: {shares}, longest {longest:,}")]


def lengths_json(dataset: Dataset) -> dict[str, Any]:
    """Return the numbers of tokens by field, under the name "tokens"; nothing for images."""
    found = {field: asdict(one) for field, one in _lengths_of(dataset).items()}
    return {"tokens": found} if found else {}
