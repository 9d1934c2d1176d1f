"""Packed rows of a text loader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.data.text_shards import make

if TYPE_CHECKING:
    from pathlib import Path

    import stoker


def test_packed_rows_hold_whole_sequences_with_their_own_ids(
    shards: Path, sequences: dict[int, tuple[list[int], list[int]]]
) -> None:
    loader = make(
        shards, pack=40, columns=("input_ids", "segment_ids", "position_ids", "cu_seqlens", "max_seqlen")
    )
    found = []
    shapes = set()
    for ids, segments, positions, cu_seqlens, max_seqlen in loader:
        assert max_seqlen == 40
        assert cu_seqlens[-1] == ids.size
        shapes.add((ids.shape, cu_seqlens.shape))
        for row, segment, position in zip(ids, segments, positions, strict=True):
            for number in range(1, segment.max() + 1):
                found.append(row[segment == number].tolist())
                assert position[segment == number].tolist() == list(range(len(found[-1])))
    assert sorted(found) == sorted(q for q, _ in sequences.values())
    assert len(shapes) == len(loader.shapes())


def test_packed_rows_hold_at_most_max_sequences(shards: Path) -> None:
    loader = make(shards, pack=40, max_sequences=3, columns=("segment_ids", "cu_seqlens"))
    shapes = {batch.cu_seqlens.shape for batch in loader}
    assert max(batch.segment_ids.max() for batch in loader) == 3
    assert shapes <= {(n * (3 + 1) + 1,) for n, _ in loader.shapes()}
    roomy = make(shards, pack=40, max_sequences=45, columns=("cu_seqlens",))
    assert {batch.cu_seqlens.shape for batch in roomy} <= {(n * (45 + 1) + 1,) for n, _ in roomy.shapes()}


def test_rows_are_packed_anew_in_each_epoch(shards: Path) -> None:
    def rows(loader: stoker.TextLoader) -> set[bytes]:
        return {row.tobytes() for batch in loader for row in batch.input_ids}

    shuffled = make(shards, pack=40)
    assert rows(shuffled) != rows(shuffled)
    fixed = make(shards, pack=40, shuffle=False)
    assert rows(fixed) == rows(fixed)
