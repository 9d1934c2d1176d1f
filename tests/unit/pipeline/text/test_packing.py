"""Packed rows of a text loader."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.shards import N, make


def test_packed_rows_hold_whole_sequences_with_distinct_segment_ids(
    shards: Path, sequences: dict[int, tuple[list[int], list[int]]]
) -> None:
    loader = make(
        shards, pack=40, columns=("input_ids", "segment_ids", "position_ids", "cu_seqlens", "max_seqlen")
    )
    packed = []
    shapes = set()
    for ids, segments, positions, cu_seqlens, max_seqlen in loader:
        assert max_seqlen == 40
        assert cu_seqlens[-1] == ids.size
        shapes.add((ids.shape, cu_seqlens.shape))
        for row, segment, position in zip(ids, segments, positions, strict=True):
            for number in range(1, segment.max() + 1):
                packed.append(row[segment == number].tolist())
                assert position[segment == number].tolist() == list(range(len(packed[-1])))
    assert sorted(packed) == sorted(q for q, _ in sequences.values())
    assert len(shapes) == len(loader.shapes())


def test_packed_rows_hold_at_most_max_sequences(shards: Path) -> None:
    loader = make(shards, pack=40, max_sequences=3, columns=("segment_ids", "cu_seqlens"))
    shapes = {batch.cu_seqlens.shape for batch in loader}
    assert max(batch.segment_ids.max() for batch in loader) == 3
    assert shapes <= {(n * (3 + 1) + 1,) for n, _ in loader.shapes()}
    roomy = make(shards, pack=40, max_sequences=45, columns=("cu_seqlens",))
    assert {batch.cu_seqlens.shape for batch in roomy} <= {(n * (45 + 1) + 1,) for n, _ in roomy.shapes()}


@pytest.mark.parametrize("world_size", [1, 2])
def test_all_fields_of_a_sample_have_the_same_row_and_segment(
    shards: Path, sequences: dict[int, tuple[list[int], list[int]]], world_size: int
) -> None:
    columns = ("q_input_ids", "q_segment_ids", "a_input_ids", "a_segment_ids", "row")
    seen = []
    for rank in range(world_size):
        loader = make(
            shards, fields=("q", "a"), pack=(60, 20), columns=columns, rank=rank, world_size=world_size
        )
        assert loader.shapes()[0][1:] == (60, 20)
        for batch in loader:
            for q, q_segments, a, a_segments, rows in zip(*batch, strict=True):
                for segment, row in enumerate(rows[rows >= 0].tolist(), 1):
                    assert q[q_segments == segment].tolist() == sequences[row][0]
                    assert a[a_segments == segment].tolist() == sequences[row][1]
                    seen.append(row)
    assert set(seen) == set(range(N))
