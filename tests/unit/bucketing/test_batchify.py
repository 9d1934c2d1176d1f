"""Batchify functions: the arrays of padded, flat and packed sequences, against a list made token by token."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from stoker.bucketing import Dict, Flatten, List, Pack, Packed, Pad, PreferencePairs, Ragged, Stack, Tuple
from stoker.bucketing.batchify import Output
from stoker.errors import ConfigError

ALL = get_args(Output)
SAMPLES = [[0, 7, 0], [9], [], [4, 4]]


def plain(arrays):
    return {name: np.asarray(array).tolist() for name, array in arrays.items()}


def reference(rows, width, *, side="right", value=0, start=0, ignore=-100, by_sequence=False):
    """Return every array, made token by token."""
    columns = {
        name: []
        for name in ("input_ids", "attention_mask", "position_ids", "segment_ids", "labels", "loss_weights")
    }
    for sequences in rows:
        tokens = [
            (
                token,
                True,
                start + index,
                number,
                token if index else ignore,
                (1 / (len(sequence) - 1) if by_sequence else 1) if index else 0,
            )
            for number, sequence in enumerate(sequences, 1)
            for index, token in enumerate(sequence)
        ]
        padding = [(value, False, 0, 0, ignore, 0)] * (width - len(tokens))
        line = padding + tokens if side == "left" else tokens + padding
        for name, column in zip(columns, zip(*line, strict=True), strict=True):
            columns[name].append(list(column))
    return columns


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("length", [None, 8])
def test_padded_sequences_equal_the_reference(side, length):
    made = plain(Pad(outputs=ALL, side=side, position_start=2)(SAMPLES, length))
    expected = reference([[sample] for sample in SAMPLES], length or 3, side=side, start=2)
    assert {name: made[name] for name in expected} == expected
    assert made["lengths"] == [3, 1, 0, 2]


@pytest.mark.parametrize("weights", ["tokens", "sequences"])
def test_packed_and_flat_sequences_equal_the_reference(weights):
    rows = [[[1, 2, 3], [4, 5]], [[6]], [[7, 8, 9, 10, 11, 12]]]
    made = Pack(outputs=ALL, position_start=1, value=9, loss_weights=weights)(rows, 6)
    expected = reference(rows, 6, start=1, value=9, by_sequence=weights == "sequences")
    for name, column in expected.items():
        assert np.allclose(made[name], column), name
    assert made["cu_seqlens"].tolist() == [0, 3, 5, 6, 7, 12, 18]
    assert (made["max_seqlen"], made["lengths"].tolist()) == (6, [5, 1, 6])
    one_array = Packed(Ragged(np.arange(1, 13), np.array([0, 3, 5, 6, 12])), np.array([0, 2, 3, 4]))
    assert plain(Pack(outputs=ALL)(one_array, 6)) == plain(Pack(outputs=ALL)(rows, 6))
    flat = plain(Flatten(outputs=ALL, loss_weights=weights)(SAMPLES))
    for name, column in reference([SAMPLES], 6, by_sequence=weights == "sequences").items():
        assert np.allclose(flat[name], column[0]), name
    assert flat["cu_seqlens"] == flat["cu_seq_lens_q"] == flat["cu_seq_lens_k"] == [0, 3, 4, 4, 6]
    assert flat["max_seqlen"] == flat["max_length_q"] == flat["max_length_k"] == 3


def test_pad_has_the_documented_types_and_pads_to_a_multiple():
    made = Pad(outputs=ALL, pad_to_multiple_of=8, dtype=np.int64)([np.array([1, 2, 3], np.int32)])
    assert made["input_ids"].shape == (1, 8)
    dtypes = {name: str(array.dtype) for name, array in made.items() if not isinstance(array, int)}
    assert dtypes == {
        "input_ids": "int64",
        "attention_mask": "bool",
        "lengths": "int32",
        "position_ids": "int32",
        "segment_ids": "int32",
        "labels": "int64",
        "loss_weights": "float32",
        "cu_seqlens": "int32",
        "cu_seq_lens_q": "int32",
        "cu_seq_lens_k": "int32",
    }
    assert Pad()([np.array([1], np.int32)])["input_ids"].dtype == np.int32
    assert Pad()([[], []])["input_ids"].shape == (2, 1)


def test_a_list_of_arrays_and_a_ragged_give_the_same():
    ragged = Ragged(np.array([0, 7, 0, 9, 4, 4]), np.array([0, 3, 4, 4, 6]))
    assert plain(Pad(outputs=ALL)(ragged)) == plain(Pad(outputs=ALL)(SAMPLES))
    assert plain(Flatten(outputs=ALL)(ragged)) == plain(Flatten(outputs=ALL)(SAMPLES))
    assert [ragged[k].tolist() for k in range(len(ragged))] == SAMPLES


def test_flatten_with_static_shapes():
    flatten = Flatten(outputs=("input_ids", "cu_seqlens", "max_seqlen"), max_sequences=5)
    one, other = flatten(SAMPLES, 16), flatten([[1, 2]], 16)
    assert one["input_ids"].shape == other["input_ids"].shape == (16,)
    assert one["cu_seqlens"].tolist() == [0, 3, 4, 4, 6, 16, 16]
    assert other["cu_seqlens"].tolist() == [0, 2, 16, 16, 16, 16, 16]
    assert one["max_seqlen"] == other["max_seqlen"] == 16
    with pytest.raises(ConfigError, match="4 sequences; max_sequences is 3"):
        Flatten(max_sequences=3)(SAMPLES)
    with pytest.raises(ConfigError, match="more than the 5"):
        flatten(SAMPLES, 5)


def test_pack_with_static_shapes():
    made = Pack(outputs=("cu_seqlens", "max_seqlen"), max_sequences=2)([[[1, 2], [3]], [[4]]], 4)
    assert made["cu_seqlens"].tolist() == [0, 2, 3, 4, 5, 8, 8]
    assert made["max_seqlen"] == 4


def test_a_dict_of_functions_merges_their_arrays():
    samples = [{"text": [1, 2], "topic": 3, "name": "a"}, {"text": [4], "topic": 5, "name": "b"}]
    made = Dict({"text": Pad(), "topic": Stack(np.int32), "name": List()})(samples, {"text": 4})
    assert set(made) == {"input_ids", "attention_mask", "topic", "name"}
    assert made["input_ids"].shape == (2, 4)
    assert made["topic"].dtype == np.int32
    assert made["name"] == ["a", "b"]


def test_columns_give_what_samples_give():
    samples = [([1, 2], 3), ([4], 5)]
    function = Tuple(Pad(outputs=("input_ids",)), Stack())
    by_sample, by_column = function(samples), function(([[1, 2], [4]], np.array([3, 5])))
    assert plain(by_sample[0]) == plain(by_column[0]) == {"input_ids": [[1, 2], [4, 0]]}
    assert by_sample[1].tolist() == by_column[1].tolist() == [3, 5]
    columns = Dict({"text": Pad(outputs=("input_ids",))})({"text": [[1, 2], [4]]})
    assert plain(columns) == {"input_ids": [[1, 2], [4, 0]]}


def test_labels_of_encoder_decoders_keep_the_first_token():
    for function, samples in (
        (Pad, [[5, 6, 7], [8]]),
        (Flatten, [[5, 6, 7], [8]]),
        (Pack, [[[5, 6, 7], [8]]]),
    ):
        made = function(outputs=("labels", "loss_weights"), labels="seq2seq", loss_weights="sequences")(
            samples
        )
        assert made["labels"][made["labels"] >= 0].tolist() == [5, 6, 7, 8]
        assert np.allclose(made["loss_weights"][made["labels"] >= 0], [1 / 3] * 3 + [1])
        assert made["loss_weights"].sum() == pytest.approx(2)


FEATURES = [np.full((frames, 4), frames, np.float32) for frames in (3, 5, 1)]


def test_features_are_padded_along_their_frames() -> None:
    padded, lengths = Pad(axis=0, value=-1, ret_length=True, round_to=4)(FEATURES)
    assert padded.shape == (3, 8, 4)
    assert padded.dtype == np.float32
    assert lengths.tolist() == [3, 5, 1]
    for sample, row, length in zip(FEATURES, padded, lengths, strict=True):
        assert (row[:length] == sample).all()
        assert (row[length:] == -1).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pad(labels="masked"), "labels must be one of"),
        (lambda: Pad(outputs=("token_type_ids",)), "outputs must be one of"),
        (lambda: Pad(side="middle"), "side must be one of"),
        (lambda: Flatten(loss_weights="seq"), "loss_weights must be one of"),
        (lambda: Pack(pad_to_multiple_of=0), "pad_to_multiple_of"),
        (lambda: Pad()([]), "at least one sequence"),
        (lambda: Pad()([[[1]]]), "one-dimensional"),
        (lambda: Pad()([[1], [1, 2, 3]], 2), "row 1 of the batch has 3 tokens, more than the 2"),
        (lambda: Tuple(Stack())([(1, 2)]), "1 functions, 2 fields"),
        (lambda: Dict({"q": Pad(), "a": Pad()})({"q": [[1]], "a": [[2]]}), "two fields give"),
        (lambda: Ragged(np.arange(3), np.array([0, 2])), "offsets"),
        (lambda: Ragged(np.arange(3), np.array([0, 2, 1, 3])), "ascending"),
        (lambda: Ragged(np.arange(3), np.array([0, 3]), np.ones(2, bool)), "trained must be"),
        (lambda: Ragged(np.arange(3), np.array([0, 3]), None, np.ones(2)), "targets must be"),
        (lambda: Pack()(Packed(Ragged(np.arange(3), np.array([0, 3])), np.array([0, 2]))), "groups"),
        (lambda: Pad(axis=2)(FEATURES), "axis must be at most 1"),
        (lambda: Pad(axis=0)([np.ones((2, 3)), np.ones((2, 4))]), "differ along axis 0 alone"),
        (lambda: Pad(axis=0)([np.ones((2, 3)), np.ones(2)]), "differ along axis 0 alone"),
        (lambda: Pad(axis=0)(FEATURES, 4), "sample 1 has length 5"),
        (lambda: Pad(axis=0)([]), "at least one sample"),
        (lambda: Pad(ret_length=True), "ret_length needs an axis"),
        (lambda: Pad(axis=0, round_to=8, pad_to_multiple_of=4), "two names of one option"),
    ],
)
def test_wrong_arguments_and_samples_are_named(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize("axis", [1, -2])
def test_any_axis_and_dtype(axis: int) -> None:
    images = [np.ones((3, width, 2), np.uint8) for width in (2, 6)]
    padded = Pad(axis=axis, dtype="int64")(images, 7)
    assert padded.shape == (2, 3, 7, 2)
    assert padded.dtype == np.int64
    assert padded.sum(axis=(1, 2, 3)).tolist() == [12, 36]


PROMPTS, CHOSEN, REJECTED = [[1, 2, 3], [7, 8]], [[4, 5], [9]], [[6], [10, 11]]
PAIRS = {"prompt": PROMPTS, "chosen": CHOSEN, "rejected": REJECTED}


def test_the_arrays_are_those_of_the_example_of_trl() -> None:
    """The docstring of ``DataCollatorForPreference`` in trl 1.16."""
    made = PreferencePairs()(PAIRS)
    assert made["input_ids"].tolist() == [
        [1, 2, 3, 4, 5],
        [7, 8, 9, 0, 0],
        [1, 2, 3, 6, 0],
        [7, 8, 10, 11, 0],
    ]
    assert made["attention_mask"].astype(int).sum(axis=1).tolist() == [5, 3, 4, 4]
    assert made["completion_mask"].astype(int).tolist() == [
        [0, 0, 0, 1, 1],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 1, 1, 0],
    ]


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [
        ("keep_start", [[1, 2, 3, 4], [7, 8, 9, 99], [1, 2, 3, 6], [7, 8, 10, 11]]),
        ("keep_end", [[3, 4, 5, 99], [7, 8, 9, 99], [2, 3, 6, 99], [8, 10, 11, 99]]),
    ],
)
def test_long_sequences_are_cut_and_answers_end(truncation: Any, expected: list[list[int]]) -> None:
    pairs = PreferencePairs(end_id=99, max_length=4, truncation=truncation)
    made = pairs(PAIRS)
    assert made["input_ids"].tolist() == expected
    lengths = np.array([[3, 2, 1], [2, 1, 2]])
    assert pairs.planned_lengths(lengths, packs=True).tolist() == [[4, 4], [4, 4]]
    assert PreferencePairs(end_id=99).planned_lengths(lengths, packs=False).tolist() == [[6], [5]]


def test_packed_rows_hold_the_same_pairs() -> None:
    def packed(sequences: list[list[int]]) -> Packed:
        ends = np.cumsum([0, *map(len, sequences)])
        return Packed(Ragged(np.concatenate(sequences), ends), np.array([0, 2]))

    made = PreferencePairs(outputs=("input_ids", "segment_ids", "position_ids", "completion_mask", "labels"))(
        {name: packed(sequences) for name, sequences in PAIRS.items()}, (9, 9)
    )
    assert made["input_ids"].tolist() == [[1, 2, 3, 4, 5, 7, 8, 9, 0], [1, 2, 3, 6, 7, 8, 10, 11, 0]]
    assert made["segment_ids"].tolist() == [[1] * 5 + [2] * 3 + [0], [1] * 4 + [2] * 4 + [0]]
    assert (made["labels"] == np.where(made["completion_mask"], made["input_ids"], -100)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": ("prompt", "chosen")}, "a prompt and two answers"),
        ({"outputs": ("lengths",)}, "outputs must be one of"),
        ({"truncation": "end"}, "truncation must be one of"),
        ({"max_length": 0}, "max_length must be at least 1"),
    ],
)
def test_wrong_arguments_of_pairs_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PreferencePairs(**options)
