"""Masks, spans and rows of several fields, stopped anywhere and resumed on any number of ranks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.data.shards.text_shards import N, make, write_shards

from stoker.bucketing import MaskTokens, SpanCorruption

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = MaskTokens(0.3, mask_id=260, vocabulary=256)
SPANS = SpanCorruption(0.3, sentinels=range(300, 400), end_id=258)
FORMS: dict[str, dict[str, Any]] = {
    "masked": {"mask": TOKENS, "columns": ("input_ids", "labels", "row", "mask")},
    "masked and packed": {"mask": TOKENS, "pack": 40, "columns": ("input_ids", "labels", "row", "mask")},
    "spans": {"mask": SPANS, "columns": ("input_ids", "labels", "row", "mask")},
    "spans, packed": {"mask": SPANS, "pack": (64, 40), "columns": ("input_ids", "labels", "row", "mask")},
    "fields, packed": {"fields": ("q", "a"), "pack": (60, 20), "columns": ("q_input_ids", "row", "mask")},
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shards(tmp_path_factory.mktemp("text"))


def taken(loaders: list[Any], steps: int | None) -> list[tuple[tuple[int, ...], bytes]]:
    """The samples of each row that is no repetition, and its tokens and labels without padding."""
    found = []
    for loader in loaders:
        for batch in itertools.islice(loader, steps):
            for i in np.flatnonzero(batch.mask).tolist():
                rows = tuple(row for row in np.atleast_1d(batch.row[i]).tolist() if row >= 0)
                kept = [column[i][(column[i] != 256) & (column[i] != -100)] for column in batch[:-2]]
                found.append((rows, b"".join(one.astype(np.int64).tobytes() for one in kept)))
    return found


@pytest.mark.parametrize("form", FORMS)
def test_every_row_is_the_same_after_any_stop_on_any_number_of_ranks(shards: Path, form: str) -> None:
    options = {"batch_size": 3, **FORMS[form]}
    whole = sorted(taken([make(shards, **options)], None))
    assert sorted(row for rows, _ in whole for row in rows) == list(range(N))
    for before, stop, after in ((1, 2, 3), (3, 1, 2)):
        first = [make(shards, rank=rank, world_size=before, **options) for rank in range(before)]
        found = taken(first, stop)
        second = [make(shards, rank=rank, world_size=after, **options) for rank in range(after)]
        for loader in second:
            loader.load_state_dict(first[0].state_dict())
        assert sorted(found + taken(second, None)) == whole
