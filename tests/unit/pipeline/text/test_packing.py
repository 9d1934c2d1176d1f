"""Packed rows of a text loader."""

from __future__ import annotations

from pathlib import Path

from helpers.shards import Sequences, make


def test_packed_rows_hold_whole_sequences_with_distinct_segment_ids(
    shards: Path, sequences: Sequences
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
