"""Padding, packing and flattening of any sequences: no token is lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.bucketing import Flatten, Pack, Pad

OUTPUTS = ("input_ids", "attention_mask", "position_ids", "segment_ids", "labels", "cu_seqlens", "max_seqlen")
sequences = st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=8)
quick = settings(max_examples=50)


def recovered(segment_ids, values):
    """The sequences that are not empty, read back from the segments of each row."""
    return [
        values[row][segment_ids[row] == segment].tolist()
        for row in range(len(values))
        for segment in range(1, segment_ids[row].max() + 1)
        if (segment_ids[row] == segment).any()
    ]


@quick
@given(sequences, st.sampled_from(["left", "right"]), st.integers(1, 4))
def test_padding_keeps_every_token(samples, side, pad_to_multiple_of):
    arrays = Pad(outputs=OUTPUTS, side=side, pad_to_multiple_of=pad_to_multiple_of, value=5)(samples)
    ids, mask = arrays["input_ids"], arrays["attention_mask"]
    assert ids.shape[1] % pad_to_multiple_of == 0
    assert [row[kept].tolist() for row, kept in zip(ids, mask, strict=True)] == samples
    assert (ids[~mask] == 5).all()
    check_arrays(arrays, [[sample] for sample in samples])


@quick
@given(st.lists(sequences, min_size=1, max_size=4), st.integers(0, 3))
def test_packing_keeps_every_token(rows, spare):
    width = max(max(sum(map(len, row)) for row in rows) + spare, 1)
    arrays = Pack(outputs=OUTPUTS)(rows, width)
    assert arrays["input_ids"].shape == (len(rows), width)
    check_arrays(arrays, rows)


@quick
@given(sequences, st.integers(1, 4))
def test_flattening_keeps_every_token(samples, pad_to_multiple_of):
    arrays = Flatten(outputs=OUTPUTS, pad_to_multiple_of=pad_to_multiple_of)(samples)
    check_arrays(
        {
            name: value[None] if getattr(value, "ndim", 0) and name != "cu_seqlens" else value
            for name, value in arrays.items()
        },
        [samples],
    )


def check_arrays(arrays, rows):
    """Checks that arrays hold the sequences of each row, and that all outputs agree."""
    real = [sequence for row in rows for sequence in row if sequence]
    segments = arrays["segment_ids"]
    assert recovered(segments, arrays["input_ids"]) == real
    assert recovered(segments, arrays["position_ids"]) == [list(range(len(sequence))) for sequence in real]
    assert recovered(segments, arrays["labels"]) == [[-100, *sequence[1:]] for sequence in real]
    assert (arrays["attention_mask"] == (segments > 0)).all()
    assert (arrays["labels"][segments == 0] == -100).all()
    bounds = arrays["cu_seqlens"]
    assert bounds.dtype == np.int32
    assert (bounds[0], bounds[-1]) == (0, segments.size)
    flat, kept = arrays["input_ids"].reshape(-1), segments.reshape(-1)
    spans = [(begin, end) for begin, end in pairwise(bounds.tolist()) if end > begin]
    assert [flat[begin:end].tolist() for begin, end in spans if kept[begin]] == real
    assert arrays["max_seqlen"] == max(end - begin for begin, end in spans)
